// What the page knows: a mirror of the controller's state, kept up to date by its events. All views read from here, and
// all of them are told, at most once a frame, when something has changed.

import { useEffect, useState } from "preact/hooks";

import { get, Refusal } from "./client.ts";
import { Tracks } from "./samples.ts";
import type { Catalogue, Path, Run, RunSummary, Sample, State, Statistics, Transfer } from "./types.ts";

export type Connection = "connecting" | "open" | "lost" | "refused";

/** When the path of a run was moved, and to what. */
export interface Move {
  t: number;
  path: Path;
}

/** A run with all that a page needs of it. */
export interface Watched {
  run: Run;
  tracks: Tracks;
  moves: Move[];
}

class Desk {
  connection: Connection = "connecting";
  state: State | null = null;
  catalogue: Catalogue | null = null;
  readonly watched = new Map<string, Watched>();
  private readonly listeners = new Set<() => void>();
  private readonly loading = new Map<string, Promise<void>>();
  /** What events brought of runs that are being loaded. */
  private readonly pending = new Map<string, Sample[]>();
  private events: EventSource | null = null;
  private isDue = false;

  subscribe(listener: () => void): () => void {
    this.listeners.add(listener);
    return () => this.listeners.delete(listener);
  }

  private changed(): void {
    if (this.isDue) return;
    this.isDue = true;
    const tell = (): void => {
      this.isDue = false;
      this.listeners.forEach((listener) => listener());
    };
    // A hidden page gets no frames, but is to be right when it is looked at.
    if (document.hidden) setTimeout(tell, 200);
    else requestAnimationFrame(tell);
  }

  async start(): Promise<void> {
    try {
      this.state = await get<State>("state");
      this.catalogue ??= await get<Catalogue>("catalogue");
      this.listen();
    } catch (error) {
      const isRefused = error instanceof Refusal && (error.status === 401 || error.status === 403);
      this.connection = isRefused ? "refused" : "lost";
      if (!isRefused) setTimeout(() => void this.start(), 1500);
    }
    this.changed();
  }

  private listen(): void {
    const events = new EventSource("/api/events");
    this.events = events;
    const on = <T>(name: string, handle: (data: T) => void): void =>
      events.addEventListener(name, (event) => {
        handle(JSON.parse((event as MessageEvent<string>).data) as T);
        this.changed();
      });
    events.onopen = () => {
      this.connection = "open";
      for (const id of this.watched.keys()) void this.load(id).catch(() => undefined);
      this.changed();
    };
    events.onerror = () => {
      // One way back for all causes: ask for the state, which also tells a refusal from an absence.
      events.close();
      if (this.events !== events) return;
      this.events = null;
      this.connection = "lost";
      this.changed();
      setTimeout(() => void this.start(), 1000);
    };
    on<State>("state", (state) => this.onState(state));
    on<RunSummary>("run", (summary) => this.onRun(summary));
    on<{ run: string; transfer: Transfer }>("transfer", ({ run, transfer }) =>
      this.onTransfer(run, transfer),
    );
    on<{ run: string; statistics: Statistics[] }>("statistics", ({ run, statistics }) => {
      const watched = this.watched.get(run);
      if (watched) watched.run = { ...watched.run, statistics };
    });
    on<{ run: string; samples: Sample[] }>("samples", ({ run, samples }) => {
      this.pending.get(run)?.push(...samples);
      this.watched.get(run)?.tracks.add(samples);
    });
    on<{ run: string; path: Path; t: number }>("path", ({ run, path, t }) => {
      const watched = this.watched.get(run);
      if (!watched) return;
      watched.moves.push({ t, path });
      watched.run = { ...watched.run, spec: { ...watched.run.spec, path } };
    });
  }

  private onState(state: State): void {
    this.state = state;
    for (const { id, status } of state.runs) {
      const was = this.watched.get(id)?.run.status;
      if (was !== undefined && was !== status) void this.load(id).catch(() => undefined);
    }
    const present = new Set(state.runs.map((run) => run.id));
    for (const summary of state.runs) this.update(summary);
    for (const id of this.watched.keys())
      if (!present.has(id) && state.runs.length < 200) this.watched.delete(id);
  }

  private onRun(summary: RunSummary): void {
    if (!this.state) return;
    const runs = this.state.runs.map((run) => (run.id === summary.id ? summary : run));
    this.state = { ...this.state, runs };
    const was = this.watched.get(summary.id)?.run.status;
    this.update(summary);
    // Its beginning says how much there is to send, its end settles the last numbers.
    if (was !== undefined && was !== summary.status) void this.load(summary.id).catch(() => undefined);
  }

  private update(summary: RunSummary): void {
    const watched = this.watched.get(summary.id);
    if (watched) watched.run = { ...watched.run, ...summary };
  }

  private onTransfer(id: string, transfer: Transfer): void {
    const watched = this.watched.get(id);
    if (!watched) return;
    const others = watched.run.transfers.filter(
      (known) => known.flow !== transfer.flow || known.transfer !== transfer.transfer,
    );
    watched.run = { ...watched.run, transfers: [...others, transfer] };
  }

  /** Begins to follow a run (again): details first, then all samples. */
  load(id: string): Promise<void> {
    const under = this.loading.get(id);
    if (under) return under;
    this.pending.set(id, []);
    const promise = this.fetch(id).finally(() => {
      this.loading.delete(id);
      this.pending.delete(id);
    });
    this.loading.set(id, promise);
    return promise;
  }

  private async fetch(id: string): Promise<void> {
    const run = await get<Run>(`runs/${encodeURIComponent(id)}`);
    const known = this.watched.get(id);
    const tracks = new Tracks();
    let from = 0;
    for (;;) {
      const page = await get<{ next: number; samples: Sample[] }>(
        `runs/${encodeURIComponent(id)}/samples?from=${from}`,
      );
      tracks.add(page.samples);
      if (page.next === from || page.samples.length === 0) break;
      from = page.next;
    }
    tracks.add(this.pending.get(id) ?? []);
    tracks.version = (known?.tracks.version ?? 0) + 1;
    this.watched.set(id, { run, tracks, moves: known?.moves ?? [] });
    this.changed();
  }

  put(run: Run): void {
    this.watched.set(run.id, { run, tracks: new Tracks(), moves: [] });
    this.changed();
  }

  follow(id: string): void {
    if (this.watched.has(id) || this.loading.has(id)) return;
    this.load(id).catch((error: unknown) => {
      // A run that is gone stays away; anything else may be over in a moment.
      if (!(error instanceof Refusal && error.status === 404)) setTimeout(() => this.follow(id), 1000);
    });
  }
}

export const desk = new Desk();

/** Draws a component again whenever the desk has changed. */
export function useDesk(): Desk {
  const [, setCount] = useState(0);
  useEffect(() => desk.subscribe(() => setCount((count) => count + 1)), []);
  return desk;
}

/** A run, followed from now on; null until it is known. */
export function useRun(id: string | null): Watched | null {
  const { watched } = useDesk();
  useEffect(() => {
    if (id !== null) desk.follow(id);
  }, [id]);
  return id === null ? null : (watched.get(id) ?? null);
}
