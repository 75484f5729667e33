// The samples of a run in columns, one set for each transfer of each transport, as charts take them.

import type { Sample } from "./types.ts";

export type Measure = Exclude<keyof Sample, "flow" | "transfer">;

const measures: readonly Measure[] = [
  "t",
  "received_bytes",
  "sequence_bytes",
  "goodput_mbps",
  "window_bytes",
  "in_flight_bytes",
  "rtt_ms",
  "pacing_mbps",
  "queue_bytes",
  "lost_packets",
  "dropped_packets",
  "marked_packets",
  "offered_packets",
  "loss",
  "loss_estimate",
  "repair_packets",
  "redundancy",
];

export class Track {
  readonly columns: Record<Measure, (number | null)[]>;

  constructor() {
    this.columns = Object.fromEntries(measures.map((name) => [name, []])) as unknown as Record<
      Measure,
      (number | null)[]
    >;
  }

  get length(): number {
    return this.columns.t.length;
  }

  /** Adds what is newer than the last; an event that was also loaded changes nothing. */
  add(sample: Sample): void {
    const times = this.columns.t;
    const last = times[times.length - 1];
    if (last !== undefined && last !== null && sample.t <= last) return;
    for (const name of measures) this.columns[name].push(sample[name]);
  }

  last(name: Measure): number | null {
    const column = this.columns[name];
    return column[column.length - 1] ?? null;
  }
}

/** All tracks of a run. */
export class Tracks {
  private readonly byFlow = new Map<number, Map<number, Track>>();
  /** Counts what was added, so that views know when to draw again. */
  version = 0;

  add(samples: readonly Sample[]): void {
    for (const sample of samples) this.track(sample.flow, sample.transfer).add(sample);
    if (samples.length > 0) this.version += 1;
  }

  private track(flow: number, transfer: number): Track {
    let transfers = this.byFlow.get(flow);
    if (!transfers) this.byFlow.set(flow, (transfers = new Map()));
    let track = transfers.get(transfer);
    if (!track) transfers.set(transfer, (track = new Track()));
    return track;
  }

  /** One transfer of a transport; without a number the latest that has begun. */
  of(flow: number, transfer: number | null = null): Track | null {
    const transfers = this.byFlow.get(flow);
    if (!transfers) return null;
    const wanted = transfer ?? Math.max(...transfers.keys());
    return transfers.get(wanted) ?? null;
  }
}
