// A chart of streaming series: uPlot in a component. Drag zooms (all charts of a group together), double-click shows
// everything again, hovering puts the values beside the names.

import { useLayoutEffect, useRef, useState } from "preact/hooks";
import uPlot from "uplot";

import { onTheme } from "../theme.ts";
import { colourOf, lookOf, paintOf } from "../transports.ts";
import { Marker, shapePath } from "./swatch.tsx";

/** One line of a chart. */
export interface Line {
  label: string;
  /** Decides colour and pattern. */
  transport: string;
  /** Drawn thinner and paler: the run that is compared with. */
  isBehind?: boolean;
  /** In place of the transport's own pattern: a second curve of the same transport. */
  dash?: readonly number[];
  /** Points in order of time. */
  x: readonly number[];
  y: readonly (number | null)[];
}

export interface ChartProps {
  title: string;
  unit: string;
  lines: readonly Line[];
  /** Charts of one group share cursor and zoom. */
  group?: ZoomGroup;
  height?: number;
  format?: (value: number) => string;
  /** Steps instead of straight lines between points. */
  hasSteps?: boolean;
  /** Moments worth a line: what somebody changed, and when. */
  notes?: readonly { t: number; text: string }[];
}

/** The span that a group of charts shows; null for all. */
export class ZoomGroup {
  span: [number, number] | null = null;
  private readonly members = new Set<(span: [number, number] | null) => void>();
  constructor(readonly key: string) {}

  join(member: (span: [number, number] | null) => void): () => void {
    this.members.add(member);
    return () => this.members.delete(member);
  }

  set(span: [number, number] | null): void {
    this.span = span;
    this.members.forEach((member) => member(span));
  }
}

function css(name: string): string {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}

function series(line: Line, hasSteps: boolean): uPlot.Series {
  const look = lookOf(line.transport);
  const result: uPlot.Series = {
    label: line.label,
    stroke: () => paintOf(line.transport),
    width: line.isBehind || line.dash ? 1.25 : 2,
    alpha: line.isBehind ? 0.5 : 1,
    dash: [...(line.dash ?? look.dash)],
    spanGaps: true,
    points: { show: false },
  };
  if (hasSteps && uPlot.paths.stepped) result.paths = uPlot.paths.stepped({ align: 1 });
  return result;
}

/** As wide as its longest number, so that none is cut. */
function wide(plot: uPlot, values: string[] | null): number {
  if (!values) return 58;
  plot.ctx.save();
  plot.ctx.font = `${11 * uPlot.pxRatio}px ${css("--mono")}`;
  const widths = values.map((value) => plot.ctx.measureText(value).width / uPlot.pxRatio);
  plot.ctx.restore();
  return Math.max(58, Math.ceil(Math.max(...widths)) + 12);
}

const axis = (size: uPlot.Axis.Size): uPlot.Axis => ({
  stroke: () => css("--soft"),
  grid: { stroke: () => css("--edge"), width: 1 },
  ticks: { stroke: () => css("--edge"), width: 1, size: 4 },
  font: `11px ${css("--mono")}`,
  size,
  gap: 4,
});

function drawNotes(plot: uPlot, notes: NonNullable<ChartProps["notes"]>): void {
  const { ctx, bbox } = plot;
  ctx.save();
  ctx.strokeStyle = css("--faint");
  ctx.fillStyle = css("--soft");
  ctx.font = `${11 * uPlot.pxRatio}px ${css("--mono")}`;
  ctx.setLineDash([3 * uPlot.pxRatio, 3 * uPlot.pxRatio]);
  for (const { t, text } of notes) {
    const x = plot.valToPos(t, "x", true);
    if (x < bbox.left || x > bbox.left + bbox.width) continue;
    ctx.beginPath();
    ctx.moveTo(x, bbox.top);
    ctx.lineTo(x, bbox.top + bbox.height);
    ctx.stroke();
    ctx.fillText(text, x + 4, bbox.top + 12 * uPlot.pxRatio);
  }
  ctx.restore();
}

/** The transport's marker at the end of its line, so that hue is not all that tells lines apart. */
function drawEnds(plot: uPlot, lines: readonly Line[]): void {
  const { ctx, bbox } = plot;
  lines.forEach((line, index) => {
    if (line.dash || line.isBehind) return;
    const x = plot.data[0];
    const y = plot.data[index + 1] ?? [];
    let at = y.length - 1;
    while (at >= 0 && (y[at] ?? null) === null) at -= 1;
    if (at < 0) return;
    const left = plot.valToPos(x[at] ?? 0, "x", true);
    if (left < bbox.left || left > bbox.left + bbox.width + 1) return;
    ctx.save();
    ctx.translate(left, plot.valToPos(y[at] ?? 0, "y", true));
    ctx.scale(uPlot.pxRatio, uPlot.pxRatio);
    ctx.fillStyle = paintOf(line.transport);
    ctx.fill(new Path2D(shapePath(lookOf(line.transport).shape, 8)));
    ctx.restore();
  });
}

function options(
  props: ChartProps,
  notes: () => ChartProps["notes"],
  width: number,
  onHover: (index: number | null) => void,
): uPlot.Options {
  const { lines, group, format, hasSteps } = props;
  const y: uPlot.Axis = {
    ...axis(wide),
    values: (_, splits) => splits.map((v) => short((format ?? plain)(v))),
  };
  const result: uPlot.Options = {
    width,
    height: props.height ?? 190,
    legend: { show: false },
    padding: [8, 10, 0, 0],
    scales: {
      x: { time: false, range: (_, __, max) => group?.span ?? [0, max > 0 ? max : 1] },
      y: { range: (_, min, max) => floor(min, max) },
    },
    axes: [{ ...axis(26), values: (_, splits) => splits.map((v) => `${v} s`) }, y],
    series: [{}, ...lines.map((line) => series(line, hasSteps ?? false))],
    cursor: { drag: { x: true, y: false, setScale: false }, points: { size: 7 } },
    hooks: {
      draw: [(plot) => drawNotes(plot, notes() ?? []), (plot) => drawEnds(plot, lines)],
      setCursor: [(plot) => onHover(plot.cursor.idx ?? null)],
      setSelect: [
        (plot) => {
          const { left, width: wide } = plot.select;
          if (wide < 4) return;
          const span: [number, number] = [plot.posToVal(left, "x"), plot.posToVal(left + wide, "x")];
          plot.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
          if (group) group.set(span);
          else plot.setScale("x", { min: span[0], max: span[1] });
        },
      ],
    },
  };
  if (group) result.cursor = { ...result.cursor, sync: { key: group.key, scales: ["x", null] } };
  return result;
}

function floor(min: number | null, max: number | null): [number, number] {
  if (min === null || max === null || max <= 0) return [0, 1];
  return [Math.min(0, min), max * 1.06];
}

/** For the axis: without zeros at the end, and without a unit that the title already says. */
function short(text: string): string {
  return text
    .replace(/(\.\d*?)0+(?=\D|$)/, "$1")
    .replace(/\.(?=\D|$)/, "")
    .replace(/\u202f(Mbit\/s|ms)$/, "");
}

function plain(value: number): string {
  if (value >= 1e6) return `${value / 1e6}M`;
  return value >= 1e4 ? `${value / 1e3}k` : String(value);
}

/** Brings lines with times of their own onto one axis. */
function aligned(lines: readonly Line[]): uPlot.AlignedData {
  if (lines.length === 0) return [[], []];
  const tables = lines.map((line) => [line.x as number[], line.y as (number | null)[]] as uPlot.AlignedData);
  return tables.length === 1 ? (tables[0] as uPlot.AlignedData) : uPlot.join(tables);
}

/** The value of a line at the cursor, or the last before it; without a cursor the last of all. */
function valueAt(
  plot: uPlot | null,
  index: number | null,
  lines: readonly Line[],
  at: number,
): number | null {
  const column = index === null ? lines[at]?.y : plot?.data[at + 1];
  if (!column) return null;
  for (let i = Math.min(index ?? Infinity, column.length - 1); i >= 0; i -= 1) {
    const value = column[i];
    if (value !== null && value !== undefined) return value;
  }
  return null;
}

export function Chart(props: ChartProps) {
  const place = useRef<HTMLDivElement>(null);
  const plot = useRef<uPlot | null>(null);
  const [hover, setHover] = useState<number | null>(null);
  const shown = useRef(props);
  shown.current = props;
  // A chart is built anew when its set of lines changes, and only given data otherwise.
  const identity = props.lines.map((line) => `${line.label}/${line.transport}/${line.isBehind}`).join("|");

  useLayoutEffect(() => {
    const host = place.current;
    if (!host) return undefined;
    const made = new uPlot(
      options(shown.current, () => shown.current.notes, host.clientWidth || 300, setHover),
      aligned(shown.current.lines),
      host,
    );
    plot.current = made;
    made.over.addEventListener("dblclick", () => shown.current.group?.set(null));
    const watch = new ResizeObserver(() => made.setSize({ width: host.clientWidth, height: made.height }));
    watch.observe(host);
    const leaveTheme = onTheme(() => made.redraw(false, true));
    const leaveGroup = shown.current.group?.join(() => made.setData(made.data, true));
    return () => {
      watch.disconnect();
      leaveTheme();
      leaveGroup?.();
      made.destroy();
      plot.current = null;
    };
  }, [identity, props.height]);

  useLayoutEffect(() => {
    plot.current?.setData(aligned(props.lines), true);
  }, [props.lines]);

  const at = hover === null ? null : (plot.current?.data[0][hover] ?? null);
  return (
    <figure class="chart" aria-label={props.title}>
      <figcaption>
        <span class="chart-title">
          {props.title} <small>{props.unit}</small>{" "}
          <output class="when">{at === null ? "" : `at ${at.toFixed(2)} s`}</output>
        </span>
        <Readouts {...props} plot={plot.current} hover={hover} />
      </figcaption>
      <div class="chart-place" ref={place} />
    </figure>
  );
}

/** The values at the cursor, or the latest: one readout for each transport, its further curves beside the first. */
function Readouts(props: ChartProps & { plot: uPlot | null; hover: number | null }) {
  const { lines, plot, hover } = props;
  const format = props.format ?? plain;
  const byTransport = new Map<string, { line: Line; words: string }[]>();
  lines.forEach((line, index) => {
    const value = valueAt(plot, hover, lines, index);
    const entry = { line, words: value === null ? "–" : short(format(value)) };
    byTransport.set(line.transport, [...(byTransport.get(line.transport) ?? []), entry]);
  });
  return (
    <span class="readouts">
      {[...byTransport].map(([transport, entries]) => (
        <output key={transport} style={{ color: colourOf(transport) }}>
          <Marker transport={transport} />
          {entries.map(({ line, words }) => (
            <span key={line.label} class={line.isBehind ? "behind" : line.dash ? "second" : "first"}>
              <span class="sr">{line.label}: </span>
              {words}
            </span>
          ))}
        </output>
      ))}
    </span>
  );
}
