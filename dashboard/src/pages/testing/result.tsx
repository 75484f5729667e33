// What a test has found so far: strip plot, table, files.

import { useState } from "preact/hooks";

import { request, save } from "../../desk/client.ts";
import type { Catalogue, Run, Transfer } from "../../desk/types.ts";
import { TransportName } from "../../ui/swatch.tsx";
import { Panel, Positions, Switch } from "../../ui/controls.tsx";
import { bytes, duration, number, percent } from "../../units.ts";
import { fewest, measures, summaryOf, type Measure, type MeasureName } from "./measure.ts";
import { Strip } from "./strip.tsx";

/** Published values of the preset that the run came from, in the unit shown. */
function publishedOf(run: Run, catalogue: Catalogue, measure: Measure): Map<string, number> {
  const preset = catalogue.run_presets.find((known) => known.id === run.spec.preset);
  const values = new Map<string, number>();
  if (!preset || measure.name === "time") return values;
  const factor = measure.name === "kib" ? 1 : 1 / measures.kib.factor;
  for (const entry of preset.published) values.set(entry.transport, entry.value * factor);
  return values;
}

const words: Record<Transfer["status"], string> = {
  complete: "complete",
  time: "ran its time",
  gave_up: "gave up",
  stopped: "stopped",
  failed: "failed",
  invalid: "invalid",
};

function Table(props: {
  run: Run;
  measure: Measure;
  dropsOutliers: boolean;
  published: ReadonlyMap<string, number>;
}) {
  const { run, measure, dropsOutliers, published } = props;
  return (
    <div class="scroll">
      <table class="figures">
        <caption class="sr">
          {measure.label} in {measure.unit}
        </caption>
        <thead>
          <tr>
            <th scope="col">transport</th>
            <th scope="col">n</th>
            <th scope="col">mean</th>
            <th scope="col" title="standard deviation">
              sd
            </th>
            <th scope="col" title="half of the 95 % interval of the mean (Student’s t)">
              95 % ±
            </th>
            <th scope="col">median</th>
            <th scope="col">min</th>
            <th scope="col">max</th>
            {published.size > 0 && <th scope="col">published</th>}
            <th scope="col" title="packets lost or dropped over packets offered to the link">
              lost
            </th>
            <th scope="col" title="bytes offered to the link over bytes delivered">
              wire
            </th>
          </tr>
        </thead>
        <tbody>
          {run.transports.map((name, flow) => (
            <FigureRow
              key={name}
              {...props}
              name={name}
              flow={flow}
              published={published.get(name)}
              hasPublished={published.size > 0}
              dropsOutliers={dropsOutliers}
            />
          ))}
        </tbody>
      </table>
    </div>
  );
}

function FigureRow(props: {
  run: Run;
  name: string;
  flow: number;
  measure: Measure;
  dropsOutliers: boolean;
  published: number | undefined;
  hasPublished: boolean;
}) {
  const { run, name, flow, measure, dropsOutliers, published, hasPublished } = props;
  const stats = run.statistics.find((entry) => entry.flow === flow);
  const summary = summaryOf(stats, measure, dropsOutliers);
  const own = run.transfers.filter((transfer) => transfer.flow === flow);
  const offered = own.reduce((sum, transfer) => sum + transfer.offered_packets, 0);
  const lost = own.reduce((sum, transfer) => sum + transfer.lost_packets, 0);
  const ratios = own.flatMap((transfer) => transfer.wire_ratio ?? []);
  const ratio = ratios.reduce((sum, value) => sum + value, 0) / ratios.length;
  const cell = (value: number | undefined) => <td>{value === undefined ? "–" : number(value)}</td>;
  const several = summary && summary.n > 1 ? summary : null;
  return (
    <tr>
      <th scope="row">
        <TransportName transport={name} />
      </th>
      <td>{summary?.n ?? 0}</td>
      <td class="main">{summary ? number(summary.mean) : "–"}</td>
      {cell(several?.sd)}
      {cell(summary && summary.n >= fewest ? summary.ci95 : undefined)}
      {cell(summary?.median)}
      {cell(summary?.min)}
      {cell(summary?.max)}
      {hasPublished && cell(published)}
      <td>{offered > 0 ? percent(lost / offered) : "–"}</td>
      <td>{ratios.length > 0 ? number(ratio) : "–"}</td>
    </tr>
  );
}

function Transfers({ run }: { run: Run }) {
  const sorted = [...run.transfers].sort((a, b) => a.transfer - b.transfer || a.flow - b.flow);
  return (
    <details class="more">
      <summary>Every transfer ({sorted.length})</summary>
      <div class="scroll tall">
        <table class="figures">
          <thead>
            <tr>
              {[
                "no.",
                "transport",
                "how it ended",
                "Mbit/s",
                "time",
                "received",
                "lost",
                "repair",
                "seed",
              ].map((head) => (
                <th key={head} scope="col">
                  {head}
                </th>
              ))}
            </tr>
          </thead>
          <tbody>
            {sorted.map((transfer) => (
              <tr key={`${transfer.flow}.${transfer.transfer}`} class={transfer.error ? "wrong" : ""}>
                <td>{transfer.transfer + 1}</td>
                <th scope="row">
                  <TransportName transport={run.transports[transfer.flow] ?? ""} />
                </th>
                <td class="text">
                  {words[transfer.status]}
                  {transfer.error && `: ${transfer.error}`}
                </td>
                <td>{number(transfer.goodput_mbps)}</td>
                <td>{duration(transfer.time_s)}</td>
                <td>{bytes(transfer.received_bytes)}</td>
                <td>{transfer.lost_packets}</td>
                <td>{transfer.repair_packets}</td>
                <td>{transfer.seed}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </details>
  );
}

function Files({ run }: { run: Run }) {
  const fetchTo = async (what: string, name: string): Promise<void> => {
    const answer = await request(`runs/${encodeURIComponent(run.id)}/${what}`);
    save(name, await answer.text(), answer.headers.get("Content-Type") ?? "text/plain");
  };
  const files: readonly [string, string, string][] = [
    ["experiment.toml", `${run.id}.toml`, "TOML"],
    ["transfers.csv", `${run.id}.csv`, "CSV"],
    ["transfers.json", `${run.id}.json`, "JSON"],
    ["samples.csv", `${run.id}-samples.csv`, "samples"],
  ];
  return (
    <p class="files">
      <span>Save:</span>
      {files.map(([what, name, label]) => (
        <button type="button" key={what} title={name} onClick={() => void fetchTo(what, name)}>
          {label}
        </button>
      ))}
      <small>
        kept in <code>{run.folder}</code>
      </small>
    </p>
  );
}

export function Result({ run, catalogue }: { run: Run; catalogue: Catalogue }) {
  const [name, setName] = useState<MeasureName>("mbps");
  const [dropsChoice, setDrops] = useState<boolean | null>(null);
  const [isLog, setLog] = useState(false);
  const dropsOutliers = dropsChoice ?? run.spec.drops_outliers;
  const measure = measures[name];
  const published = publishedOf(run, catalogue, measure);
  return (
    <Panel
      title="Result"
      class="result"
      aside={
        <div class="aside">
          <Positions
            label="in"
            value={name}
            options={Object.values(measures).map(({ name: value, unit }) => ({ value, label: unit }))}
            onChange={setName}
          />
          <Switch label="log" isOn={isLog} onChange={setLog} />
          <Switch
            label="without outliers"
            hint="The rule of the LT-TCP thesis (2.2): the n largest and n smallest are left out, n growing to a quarter at most, until the standard deviation is below the mean"
            isOn={dropsOutliers}
            onChange={setDrops}
          />
        </div>
      }
    >
      <p class="note legend">
        Each mark is a transfer; the thick line is their mean, the band its 95 % interval (from {fewest}{" "}
        transfers on). {dropsOutliers && "Hollow marks are left out. "}
        {published.size > 0 && "▽ is the published value."}
      </p>
      {run.transfers.length === 0 ? (
        <p class="empty">The first transfer has not ended yet.</p>
      ) : (
        <>
          <Strip
            run={run}
            measure={measure}
            dropsOutliers={dropsOutliers}
            isLog={isLog}
            published={published}
          />
          <Table run={run} measure={measure} dropsOutliers={dropsOutliers} published={published} />
          <Transfers run={run} />
        </>
      )}
      <Files run={run} />
    </Panel>
  );
}
