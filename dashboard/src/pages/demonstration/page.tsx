// Demonstration: several transports carry one picture over equal paths, and everybody can see who stalls.

import { useEffect, useState } from "preact/hooks";

import { Refusal } from "../../desk/client.ts";
import { useDesk, useRun, type Watched } from "../../desk/store.ts";
import type { Catalogue, Path, Spec, State } from "../../desk/types.ts";
import { go, href } from "../../route.ts";
import { bestDriver, otherErrors, useDraft, type Draft } from "../../setup/draft.ts";
import { DriverChoice } from "../../setup/driver.tsx";
import { PathEditor } from "../../setup/path.tsx";
import { TransportPicker } from "../../setup/transports.tsx";
import { Chart, type Line } from "../../ui/chart.tsx";
import { Panel } from "../../ui/controls.tsx";
import { RunHead, RunList } from "../../ui/run.tsx";
import { scaled } from "../../units.ts";
import { chosenRun, start } from "../testing/page.tsx";
import { PictureChoice } from "./pictures.tsx";
import { completeAfter, Screen } from "./screen.tsx";
import { Sliders } from "./sliders.tsx";

/** With one transport gone from the machine (no kernel TCP through the relay), its profile of the same name stands in. */
function playable(spec: Spec, state: State): Spec {
  const driver = bestDriver(state.drivers, "demo");
  const hasKernel = state.drivers.find(({ name }) => name === driver)?.kernel_tcp ?? false;
  const transports = spec.transports.map((name) =>
    hasKernel ? name : name.replace(/^tcp-reno$/, "newreno").replace(/^tcp-/, ""),
  );
  return { ...spec, driver, transports: [...new Set(transports)] };
}

function PresetButtons({ draft, state, catalogue }: { draft: Draft; state: State; catalogue: Catalogue }) {
  const presets = catalogue.run_presets.filter((preset) => preset.spec.kind === "demo");
  return (
    <div class="presets" role="group" aria-label="presets">
      {presets.map((preset) => (
        <button
          type="button"
          key={preset.id}
          title={preset.source}
          aria-pressed={draft.spec.preset === preset.id}
          onClick={() =>
            draft.replace({
              ...playable(preset.spec, state),
              preset: preset.id,
              image: draft.spec.image ?? "drawn",
            })
          }
        >
          {preset.title}
        </button>
      ))}
    </div>
  );
}

function Setup({ draft, state, catalogue }: { draft: Draft; state: State; catalogue: Catalogue }) {
  const { spec, set, errors } = draft;
  const [error, setError] = useState<string | null>(null);
  const begin = (): void => {
    setError(null);
    start({ ...spec, order: "together" }).then(
      (run) => go("demonstration", run.id),
      (problem: unknown) => setError(problem instanceof Refusal ? problem.message : String(problem)),
    );
  };
  useEffect(() => {
    const onKey = (event: KeyboardEvent): void => {
      if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) begin();
    };
    addEventListener("keydown", onKey);
    return () => removeEventListener("keydown", onKey);
  });
  const problems = [...otherErrors(errors), ...(error ? [error] : [])];
  const isWrong = Object.keys(errors).length > 0 || spec.transports.length === 0;
  return (
    <section class="panel demo-setup" aria-label="what is shown">
      <PresetButtons draft={draft} state={state} catalogue={catalogue} />
      <PictureChoice value={spec.image ?? "drawn"} onChange={(image) => set({ image })} />
      <button type="button" class="go" disabled={isWrong} onClick={begin} title="Ctrl+Enter">
        {state.running === null ? "Start" : "Queue"}
      </button>
      <details class="more wide" open={isWrong}>
        <summary>Transports and path</summary>
        <div class="columns">
          <div>
            <TransportPicker
              catalogue={catalogue}
              driver={spec.driver}
              chosen={spec.transports}
              errors={errors}
              onChange={(transports) => set({ transports })}
            />
            <DriverChoice
              drivers={state.drivers}
              kind="demo"
              value={spec.driver}
              onChange={(driver) => set({ driver })}
            />
          </div>
          <PathEditor
            catalogue={catalogue}
            path={spec.path}
            errors={errors}
            onChange={(path) => set({ path })}
          />
        </div>
      </details>
      {problems.map((problem) => (
        <p class="error" role="alert" key={problem}>
          {problem}
        </p>
      ))}
    </section>
  );
}

function Race({ watched }: { watched: Watched }) {
  const { run, tracks, moves } = watched;
  const lines: Line[] = run.transports.map((name, flow) => {
    const columns = tracks.of(flow)?.columns;
    return {
      label: name,
      transport: name,
      x: (columns?.t ?? []) as number[],
      y: columns?.received_bytes ?? [],
    };
  });
  const notes = moves.map(({ t, path }) => ({
    t,
    text: [path.forward.loss, path.forward.delay].filter(Boolean).join(" "),
  }));
  return (
    <Chart
      title="Received"
      unit="bytes"
      lines={lines}
      notes={notes}
      height={200}
      format={(value) => scaled(value, "B")}
    />
  );
}

/** When each was complete that is. */
function timesOf(watched: Watched, total: number | null): number[] {
  return watched.run.transports.flatMap((_, flow) => completeAfter(watched, flow, total) ?? []);
}

/** When the first was complete, which the others are measured by. */
function firstOf(watched: Watched, total: number | null): number | null {
  const times = timesOf(watched, total);
  return times.length === 0 ? null : Math.min(...times);
}

function Stage({ watched }: { watched: Watched }) {
  const { run } = watched;
  const [total, setTotal] = useState(run.flows[0]?.total_bytes ?? null);
  return (
    <>
      <RunHead run={run} isCompact complete={timesOf(watched, total).length}>
        <a class="button" href={href("live", run.id)}>
          Charts
        </a>
      </RunHead>
      <div class="stage" style={{ "--screens": Math.min(run.transports.length, 3) }}>
        {run.transports.map((name, flow) => (
          <Screen
            key={`${run.id} ${name}`}
            watched={watched}
            flow={flow}
            first_s={firstOf(watched, total)}
            total={total}
            onTotal={setTotal}
          />
        ))}
      </div>
    </>
  );
}

function handWords(isUnderWay: boolean, isSteerable: boolean): string {
  if (!isUnderWay) return "for the next start";
  return isSteerable
    ? "acts at once, on every path of the run"
    : "this run cannot be moved while it is under way";
}

export function Demonstration({ wanted }: { wanted: string | null }) {
  const { state, catalogue } = useDesk();
  return state && catalogue ? <Loaded wanted={wanted} state={state} catalogue={catalogue} /> : null;
}

function Loaded({ wanted, state, catalogue }: { wanted: string | null; state: State; catalogue: Catalogue }) {
  const draft = useDraft("demo", state, catalogue);
  const id = chosenRun(state, "demo", wanted);
  const watched = useRun(id);
  const isUnderWay = watched?.run.status === "running";
  const path: Path = isUnderWay ? watched.run.spec.path : draft.spec.path;
  const isSteerable = state.drivers.find(({ name }) => name === watched?.run.driver)?.steerable ?? false;
  return (
    <>
      <Setup draft={draft} state={state} catalogue={catalogue} />
      <Panel
        title="The path, by hand"
        class="hand"
        aside={<span class="note">{handWords(isUnderWay, isSteerable)}</span>}
      >
        <Sliders
          run={isUnderWay ? watched.run : null}
          path={path}
          isSteerable={isSteerable}
          onDraft={(link) =>
            draft.set({ path: { ...draft.spec.path, forward: { ...draft.spec.path.forward, ...link } } })
          }
        />
      </Panel>
      {watched ? (
        <Stage key={watched.run.id} watched={watched} />
      ) : (
        <p class="panel empty">
          {id === null
            ? "Choose a preset and start: the picture appears here as each transport brings it."
            : "…"}
        </p>
      )}
      {watched && <Race watched={watched} />}
      <RunList runs={state.runs.filter((run) => run.kind === "demo")} shown={id} page="demonstration" />
    </>
  );
}
