// Testing: choose on the left, watch and read on the right.

import { useEffect, useState } from "preact/hooks";

import { Refusal, send } from "../../desk/client.ts";
import { desk, useDesk, useRun } from "../../desk/store.ts";
import type { Catalogue, Run, RunPreset, RunSummary, Spec, State } from "../../desk/types.ts";
import { go, href } from "../../route.ts";
import { fitted, otherErrors, useDraft, type Draft } from "../../setup/draft.ts";
import { DriverChoice } from "../../setup/driver.tsx";
import { PathEditor } from "../../setup/path.tsx";
import { TransportPicker } from "../../setup/transports.tsx";
import { Panel } from "../../ui/controls.tsx";
import { RunHead, RunList } from "../../ui/run.tsx";
import { duration } from "../../units.ts";
import { Extent } from "./extent.tsx";
import { ExperimentFiles } from "./files.tsx";
import { Result } from "./result.tsx";

/** The run that the page shows: the one asked for, the one under way, or the newest. */
export function chosenRun(state: State, kind: RunSummary["kind"], wanted: string | null): string | null {
  const own = state.runs.filter((run) => run.kind === kind);
  if (wanted !== null && own.some((run) => run.id === wanted)) return wanted;
  return (own.find((run) => run.id === state.running) ?? own[0])?.id ?? null;
}

export async function start(spec: Spec): Promise<Run> {
  const run = await send<Run>("POST", "runs", spec);
  desk.put(run);
  return run;
}

function StartBar({
  draft,
  isBlocked,
  onStart,
}: {
  draft: Draft;
  isBlocked: boolean;
  onStart: () => Promise<void>;
}) {
  const { state } = useDesk();
  const [error, setError] = useState<string | null>(null);
  const waits = state?.running != null;
  const begin = (): void => {
    setError(null);
    onStart().catch((problem: unknown) =>
      setError(problem instanceof Refusal ? problem.message : String(problem)),
    );
  };
  useEffect(() => {
    const onKey = (event: KeyboardEvent): void => {
      if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) begin();
    };
    addEventListener("keydown", onKey);
    return () => removeEventListener("keydown", onKey);
  });
  const problems = [...otherErrors(draft.errors), ...(error ? [error] : [])];
  const isWrong = isBlocked || Object.keys(draft.errors).length > 0 || draft.spec.transports.length === 0;
  return (
    <div class="start">
      {problems.map((problem) => (
        <p class="error" role="alert" key={problem}>
          {problem}
        </p>
      ))}
      <button type="button" class="go" disabled={isWrong} onClick={begin} title="Ctrl+Enter">
        {waits ? "Queue" : "Start"}
      </button>
      <span class="about">
        {draft.seconds === null ? "" : `about ${duration(Math.max(1, Math.round(draft.seconds)))}`}
      </span>
    </div>
  );
}

function Setup({ state, catalogue }: { state: State; catalogue: Catalogue }) {
  const draft = useDraft("test", state, catalogue);
  const [unread, setUnread] = useState<string | null>(null);
  const { spec, set, replace, errors } = draft;
  const load = (from: Spec): void => {
    setUnread(null);
    replace(fitted({ ...from, kind: "test" }, state));
  };
  const begin = async (): Promise<void> => go("testing", (await start(spec)).id);
  const startAll = async (specs: Spec[]): Promise<void> => {
    const runs: Run[] = [];
    for (const one of specs) runs.push(await start(fitted({ ...one, kind: "test" }, state)));
    const first = runs[0];
    if (first) go("testing", first.id);
  };
  const takePreset = (preset: RunPreset): void => load({ ...preset.spec, preset: preset.id });
  useEffect(() => {
    const onLoad = (event: Event): void => load((event as CustomEvent<Spec>).detail);
    addEventListener("fulmar-load", onLoad);
    return () => removeEventListener("fulmar-load", onLoad);
  }, [state]);
  return (
    <div class="setup">
      <Panel title="Transports">
        <TransportPicker
          catalogue={catalogue}
          driver={spec.driver}
          chosen={spec.transports}
          errors={errors}
          onChange={(transports) => set({ transports })}
        />
        <DriverChoice
          drivers={state.drivers}
          kind="test"
          value={spec.driver}
          onChange={(driver) => set({ driver })}
        />
      </Panel>
      <Panel title="Path">
        <PathEditor
          catalogue={catalogue}
          path={spec.path}
          errors={errors}
          onChange={(path) => set({ path })}
          onPreset={takePreset}
        />
      </Panel>
      <Panel title="Extent">
        <Extent draft={draft} unread={unread} onUnread={setUnread} />
        <ExperimentFiles spec={spec} onLoad={load} onStartAll={(specs) => void startAll(specs)} />
      </Panel>
      <StartBar draft={draft} isBlocked={unread !== null} onStart={begin} />
    </div>
  );
}

function Watch({ id, catalogue }: { id: string; catalogue: Catalogue }) {
  const watched = useRun(id);
  if (!watched) return <p class="empty">…</p>;
  const { run } = watched;
  const load = (): void => {
    dispatchEvent(new CustomEvent("fulmar-load", { detail: run.spec }));
  };
  return (
    <>
      <RunHead run={run}>
        <a class="button" href={href("live", run.id)}>
          Charts
        </a>
        <button type="button" onClick={load} title="put its settings into the form">
          Take over
        </button>
      </RunHead>
      <Result key={run.id} run={run} catalogue={catalogue} />
    </>
  );
}

export function Testing({ wanted }: { wanted: string | null }) {
  const { state, catalogue } = useDesk();
  if (!state || !catalogue) return null;
  const id = chosenRun(state, "test", wanted);
  return (
    <>
      <Setup state={state} catalogue={catalogue} />
      <div
        class={`watch ${state.runs.some((run) => run.id === id && run.status === "running") ? "under-way" : ""}`}
      >
        {id === null ? (
          <p class="empty">No test has run yet. Choose transports and a path, then start.</p>
        ) : (
          <Watch key={id} id={id} catalogue={catalogue} />
        )}
        <RunList runs={state.runs.filter((run) => run.kind === "test")} shown={id} page="testing" />
      </div>
    </>
  );
}
