// Strip plot: a row for each transport, a mark for each transfer, the mean with its 95 % interval behind them.
// Rows share one scale; places are percent of the width, so that it fits any screen without being measured.

import type { Run, Statistics, Transfer } from "../../desk/types.ts";
import { colourOf, lookOf } from "../../transports.ts";
import { shapePath, TransportName } from "../../ui/swatch.tsx";
import { number } from "../../units.ts";
import { fewest, isCounted, show, summaryOf, type Measure } from "./measure.ts";

interface Scale {
  at: (value: number) => number;
  ticks: number[];
}

function linear(max: number): Scale {
  const power = 10 ** Math.floor(Math.log10(max));
  const step = [0.2, 0.5, 1, 2, 5].map((mark) => mark * power).find((mark) => max / mark <= 5) ?? power;
  const ticks = Array.from({ length: Math.floor(max / step + 1e-9) + 1 }, (_, index) => index * step);
  return { at: (value) => (value / (max * 1.04)) * 100, ticks };
}

function logarithmic(min: number, max: number): Scale {
  const low = Math.floor(Math.log10(min));
  const high = Math.max(low + 1, Math.ceil(Math.log10(max * 1.01)));
  const ticks = Array.from({ length: high - low + 1 }, (_, index) => 10 ** (low + index));
  return { at: (value) => ((Math.log10(Math.max(value, 10 ** low)) - low) / (high - low)) * 98, ticks };
}

function scaleOf(values: readonly number[], isLog: boolean): Scale {
  const positive = values.filter((value) => value > 0);
  const max = Math.max(...positive, 1e-3);
  return isLog ? logarithmic(Math.min(...positive, max), max) : linear(max);
}

/** Marks are spread over the row's height in the order of transfers, so that equal values do not hide each other. */
function heightOf(transfer: number): number {
  return 13 + ((transfer * 7) % 5) * 4.5;
}

function Mark(props: {
  transfer: Transfer;
  value: number;
  scale: Scale;
  name: string;
  isLeftOut: boolean;
  unit: string;
}) {
  const { transfer, value, scale, name, isLeftOut, unit } = props;
  return (
    <svg x={`${scale.at(value)}%`} y={heightOf(transfer.transfer)} overflow="visible">
      <path d={shapePath(lookOf(name).shape, 8)} class={isLeftOut ? "left-out" : "mark"}>
        <title>{`transfer ${transfer.transfer + 1}: ${show(value, unit)}${isLeftOut ? " (left out)" : ""}`}</title>
      </path>
    </svg>
  );
}

interface RowProps {
  run: Run;
  flow: number;
  measure: Measure;
  scale: Scale;
  stats: Statistics | undefined;
  dropsOutliers: boolean;
  published: number | undefined;
}

function Row({ run, flow, measure, scale, stats, dropsOutliers, published }: RowProps) {
  const name = run.transports[flow] ?? "";
  const summary = summaryOf(stats, measure, dropsOutliers);
  const counted = run.transfers.filter((transfer) => transfer.flow === flow && isCounted(transfer, measure));
  const from = summary ? scale.at(Math.max(0, summary.mean - summary.ci95)) : 0;
  const to = summary ? Math.min(100, scale.at(summary.mean + summary.ci95)) : 0;
  return (
    <div class="strip-row" style={{ color: colourOf(name) }}>
      <span class="strip-name">
        <TransportName transport={name} />
      </span>
      <svg
        height="44"
        role="img"
        aria-label={`${name}: ${summary ? show(summary.mean, measure.unit) : "nothing yet"}`}
      >
        {scale.ticks.map((tick) => (
          <line key={tick} x1={`${scale.at(tick)}%`} x2={`${scale.at(tick)}%`} y1="0" y2="44" class="grid" />
        ))}
        {summary && (
          <>
            {summary.n >= fewest && (
              <rect x={`${from}%`} width={`${Math.max(0, to - from)}%`} y="6" height="32" class="interval" />
            )}
            <line
              x1={`${scale.at(summary.mean)}%`}
              x2={`${scale.at(summary.mean)}%`}
              y1="4"
              y2="40"
              class="mean"
            />
          </>
        )}
        {counted.map((transfer) => (
          <Mark
            key={transfer.transfer}
            transfer={transfer}
            value={measure.of(transfer)}
            scale={scale}
            name={name}
            unit={measure.unit}
            isLeftOut={dropsOutliers && (stats?.left_out.includes(transfer.transfer) ?? false)}
          />
        ))}
        {published !== undefined && (
          <svg x={`${scale.at(published)}%`} y="22" overflow="visible">
            <path d="M-5 -20h10l-5 8z" class="published">
              <title>{`published: ${show(published, measure.unit)}`}</title>
            </path>
          </svg>
        )}
      </svg>
      <output>
        {summary ? (
          <>
            <b>{number(summary.mean)}</b>
            <small>{summary.n >= fewest ? `± ${number(summary.ci95)}` : measure.unit}</small>
          </>
        ) : (
          "–"
        )}
      </output>
    </div>
  );
}

export function Strip(props: {
  run: Run;
  measure: Measure;
  dropsOutliers: boolean;
  isLog: boolean;
  published: ReadonlyMap<string, number>;
}) {
  const { run, measure, dropsOutliers, isLog, published } = props;
  const counted = run.transfers.filter((transfer) => isCounted(transfer, measure));
  const summaries = run.statistics.flatMap((stats) => summaryOf(stats, measure, dropsOutliers) ?? []);
  const values = [
    ...counted.map((transfer) => measure.of(transfer)),
    ...summaries.map(({ n, mean, ci95 }) => mean + (n >= fewest ? Math.min(ci95, mean) : 0)),
    ...published.values(),
  ];
  const scale = scaleOf(values, isLog);
  return (
    <figure class="strip" aria-label={`${measure.label} of every transfer, in ${measure.unit}`}>
      {run.transports.map((name, flow) => (
        <Row
          key={name}
          run={run}
          flow={flow}
          measure={measure}
          scale={scale}
          stats={run.statistics.find((stats) => stats.flow === flow)}
          dropsOutliers={dropsOutliers}
          published={published.get(name)}
        />
      ))}
      <div class="strip-row axis" aria-hidden="true">
        <span class="strip-name" />
        <span class="scale">
          {scale.ticks.map((tick) => (
            <i key={tick} style={{ left: `${scale.at(tick)}%` }}>
              {number(tick).replace(/\.0+$/, "")}
            </i>
          ))}
        </span>
        <span>{measure.unit}</span>
      </div>
    </figure>
  );
}
