// Live: a run over time, and a second one behind it.

import { useEffect, useMemo, useState } from "preact/hooks";

import { useDesk, useRun, type Watched } from "../../desk/store.ts";
import type { RunSummary } from "../../desk/types.ts";
import { go } from "../../route.ts";
import { Chart, ZoomGroup, type Line } from "../../ui/chart.tsx";
import { Positions } from "../../ui/controls.tsx";
import { RunHead } from "../../ui/run.tsx";
import { TransportName } from "../../ui/swatch.tsx";
import { charts, type ChartKind } from "./series.ts";

type Span = "all" | "30" | "10";

/** Which transfer of a run is shown: a number, or null for the latest. */
type Shown = number | null;

function linesOf(
  kind: ChartKind,
  watched: Watched,
  shown: Shown,
  hidden: ReadonlySet<string>,
  isBehind: boolean,
): Line[] {
  const { run, tracks } = watched;
  return run.transports.flatMap((name, flow) => {
    const track = tracks.of(flow, shown);
    if (hidden.has(name) || !track) return [];
    // Of the run behind only the main curve: more would be a thicket.
    return kind.curves.slice(0, isBehind ? 1 : undefined).flatMap((curve) => {
      const y = curve.of(track);
      if (y.every((value) => value === null)) return [];
      const label = `${name}${curve.suffix}${isBehind ? " (behind)" : ""}`;
      const line: Line = { label, transport: name, x: track.columns.t as number[], y: [...y], isBehind };
      if (curve.dash) line.dash = curve.dash;
      return [line];
    });
  });
}

function toggled(set: ReadonlySet<string>, name: string): ReadonlySet<string> {
  const next = new Set(set);
  if (!next.delete(name)) next.add(name);
  return next;
}

function RunPick(props: {
  label: string;
  runs: RunSummary[];
  value: string | null;
  none?: string;
  onChange: (id: string | null) => void;
}) {
  return (
    <label class="pick">
      <span>{props.label}</span>
      <select
        value={props.value ?? ""}
        onChange={(event) => props.onChange(event.currentTarget.value || null)}
      >
        {props.none !== undefined && <option value="">{props.none}</option>}
        {props.runs.map((run) => (
          <option key={run.id} value={run.id}>
            {run.title} · {run.id.slice(9, 11)}:{run.id.slice(11, 13)}:{run.id.slice(13, 15)}
          </option>
        ))}
      </select>
    </label>
  );
}

function TransferPick(props: {
  label: string;
  watched: Watched;
  value: Shown;
  onChange: (value: Shown) => void;
}) {
  const count = props.watched.run.spec.transfers;
  if (count <= 1) return null;
  return (
    <label class="pick short">
      <span>{props.label}</span>
      <select
        value={props.value === null ? "" : String(props.value)}
        onChange={(event) =>
          props.onChange(event.currentTarget.value === "" ? null : Number(event.currentTarget.value))
        }
      >
        <option value="">latest</option>
        {Array.from({ length: count }, (_, index) => (
          <option key={index} value={String(index)}>
            {index + 1}
          </option>
        ))}
      </select>
    </label>
  );
}

function Toggles(props: {
  label: string;
  names: readonly string[];
  hidden: ReadonlySet<string>;
  isTransport: boolean;
  onToggle: (name: string) => void;
  titleOf?: (name: string) => string;
}) {
  return (
    <div class="toggles" role="group" aria-label={props.label}>
      {props.names.map((name) => (
        <button
          type="button"
          key={name}
          aria-pressed={!props.hidden.has(name)}
          onClick={() => props.onToggle(name)}
        >
          {props.isTransport ? <TransportName transport={name} /> : (props.titleOf?.(name) ?? name)}
        </button>
      ))}
    </div>
  );
}

/** Keeps the charts on the last seconds while a run is under way. */
function useSpan(group: ZoomGroup, span: Span, version: number, watched: Watched | null, shown: Shown): void {
  useEffect(() => {
    if (span === "all" || !watched) return;
    const ends = watched.run.transports.map((_, flow) => watched.tracks.of(flow, shown)?.last("t") ?? 0);
    const end = Math.max(...ends, Number(span));
    group.set([end - Number(span), end]);
  }, [group, span, version]);
}

function Charts({
  front,
  behind,
  shown,
  shownBehind,
}: {
  front: Watched;
  behind: Watched | null;
  shown: Shown;
  shownBehind: Shown;
}) {
  const [hidden, setHidden] = useState<ReadonlySet<string>>(new Set());
  const [hiddenCharts, setHiddenCharts] = useState<ReadonlySet<string>>(new Set());
  const [span, setSpan] = useState<Span>("all");
  const [isZoomed, setZoomed] = useState(false);
  const group = useMemo(() => new ZoomGroup("live"), []);
  useEffect(() => group.join((now) => setZoomed(now !== null)), [group]);
  const version = front.tracks.version + (behind?.tracks.version ?? 0);
  useSpan(group, span, version, front, shown);
  const names = [...new Set([...front.run.transports, ...(behind?.run.transports ?? [])])];
  const lines = useMemo(
    () =>
      new Map(
        charts.map((kind) => [
          kind.id,
          [
            ...linesOf(kind, front, shown, hidden, false),
            ...(behind ? linesOf(kind, behind, shownBehind, hidden, true) : []),
          ],
        ]),
      ),
    [version, front.run.id, behind?.run.id, shown, shownBehind, hidden],
  );
  const all = (): void => {
    setSpan("all");
    group.set(null);
  };
  return (
    <>
      <section class="panel chart-bar" aria-label="what the charts show">
        <Toggles
          label="transports"
          names={names}
          hidden={hidden}
          isTransport
          onToggle={(name) => setHidden(toggled(hidden, name))}
        />
        <Toggles
          label="charts"
          names={charts.map((kind) => kind.id)}
          hidden={hiddenCharts}
          isTransport={false}
          titleOf={(id) => charts.find((kind) => kind.id === id)?.title ?? id}
          onToggle={(id) => setHiddenCharts(toggled(hiddenCharts, id))}
        />
        <div class="row">
          <Positions
            label="Span"
            value={span}
            options={[
              { value: "all", label: "all" },
              { value: "30", label: "30 s" },
              { value: "10", label: "10 s" },
            ]}
            onChange={(value) => (value === "all" ? all() : setSpan(value))}
          />
          <button type="button" disabled={!isZoomed} onClick={all}>
            Zoom out
          </button>
          <span class="note">Drag over a chart to zoom all of them, double-click to see everything.</span>
        </div>
      </section>
      <div class="charts">
        {charts
          .filter((kind) => !hiddenCharts.has(kind.id))
          .map((kind) => (
            <Chart
              key={kind.id}
              title={kind.title}
              unit={kind.unit}
              lines={lines.get(kind.id) ?? []}
              group={group}
              format={kind.format}
              hasSteps={kind.hasSteps ?? false}
              notes={front.moves.map(({ t, path }) => ({ t, text: path.forward.loss ?? "" }))}
            />
          ))}
      </div>
    </>
  );
}

export function Live({ wanted, behind }: { wanted: string | null; behind: string | null }) {
  const { state } = useDesk();
  const [shown, setShown] = useState<Shown>(null);
  const [shownBehind, setShownBehind] = useState<Shown>(null);
  const runs = state?.runs.filter((run) => run.status !== "queued") ?? [];
  const id = runs.find((run) => run.id === wanted)?.id ?? state?.running ?? runs[0]?.id ?? null;
  const front = useRun(id);
  const back = useRun(behind !== id ? behind : null);
  if (id === null) return <p class="panel empty">No run yet: start one under Testing or Demonstration.</p>;
  const move = (first: string | null, second: string | null): void =>
    go("live", ...[first, second].filter((part): part is string => part !== null));
  return (
    <>
      <section class="panel live-pick" aria-label="which runs">
        <RunPick label="Run" runs={runs} value={id} onChange={(next) => move(next, behind)} />
        {front && <TransferPick label="Transfer" watched={front} value={shown} onChange={setShown} />}
        <RunPick
          label="Behind it"
          none="no other run"
          runs={runs.filter((run) => run.id !== id)}
          value={behind}
          onChange={(next) => move(id, next)}
        />
        {back && (
          <TransferPick label="Transfer" watched={back} value={shownBehind} onChange={setShownBehind} />
        )}
      </section>
      {front && <RunHead run={front.run} isCompact />}
      {front ? (
        <Charts key={id} front={front} behind={back} shown={shown} shownBehind={shownBehind} />
      ) : (
        <p class="empty">…</p>
      )}
    </>
  );
}
