// One transport's screen: the picture so far and how it is doing.

import { useEffect } from "preact/hooks";

import type { FlowState, Transfer } from "../../desk/types.ts";
import type { Track } from "../../desk/samples.ts";
import type { Watched } from "../../desk/store.ts";
import { colourOf } from "../../transports.ts";
import { TransportName } from "../../ui/swatch.tsx";
import { bytes, duration, number, percent } from "../../units.ts";
import { useReceived } from "./received.ts";

/** A second without a byte is a stall: longer than any pause that a person would take for transport. */
const stall_s = 1;

/** How long nothing has come, by the samples. */
function silence(track: Track | null): number {
  if (!track || track.length === 0) return 0;
  const { t, received_bytes } = track.columns;
  const end = track.length - 1;
  let index = end;
  while (index > 0 && received_bytes[index - 1] === received_bytes[end]) index -= 1;
  return (t[end] ?? 0) - (t[index] ?? 0);
}

/** The mean of the last second, which a person can read, unlike the last tenth. */
function recentGoodput(track: Track | null): number | null {
  if (!track || track.length === 0) return null;
  const { t, received_bytes } = track.columns;
  const end = track.length - 1;
  let from = end;
  while (from > 0 && (t[end] ?? 0) - (t[from] ?? 0) < 1) from -= 1;
  const span = (t[end] ?? 0) - (t[from] ?? 0);
  if (span <= 0) return track.last("goodput_mbps");
  return (((received_bytes[end] ?? 0) - (received_bytes[from] ?? 0)) * 8) / span / 1e6;
}

function meanGoodput(track: Track | null, time_s: number): number | null {
  const received = track?.last("received_bytes") ?? null;
  return received === null || time_s <= 0 ? null : (received * 8) / time_s / 1e6;
}

function Readout({
  label,
  value,
  unit,
  title,
}: {
  label: string;
  value: string;
  unit?: string;
  title?: string;
}) {
  return (
    <div class="readout" title={title}>
      <dt>{label}</dt>
      <dd>
        {value}
        {unit && <small> {unit}</small>}
      </dd>
    </div>
  );
}

/** When the whole picture was there: as the receiver has measured it, or by the samples until that is known. */
export function completeAfter({ run, tracks }: Watched, flow: number, total: number | null): number | null {
  const ended = run.transfers.find((transfer) => transfer.flow === flow);
  if (ended?.status === "complete") return ended.time_s;
  // A transfer that does not count, since the machine was late, was complete all the same.
  if (ended)
    return ended.status === "invalid" && total !== null && ended.received_bytes >= total
      ? ended.time_s
      : null;
  const columns = tracks.of(flow)?.columns;
  if (total === null || !columns) return null;
  const at = columns.received_bytes.findIndex((received) => (received ?? 0) >= total);
  return at < 0 ? null : (columns.t[at] ?? null);
}

interface Stand {
  kind: "waits" | "comes" | "stalls" | "complete" | "doubtful" | "over";
  text: string;
  /** Why it does not count. */
  reason?: string;
}

function standOf(
  state: FlowState | undefined,
  ended: Transfer | undefined,
  complete_s: number | null,
  silent: number,
  time: number,
): Stand {
  const complete = `complete after ${duration(complete_s ?? 0)}`;
  if (complete_s !== null && ended?.status === "invalid") {
    return { kind: "doubtful", text: `${complete}; the machine was late`, reason: ended.error ?? "" };
  }
  if (complete_s !== null) return { kind: "complete", text: complete };
  if (ended) return { kind: "over", text: ended.error ?? ended.status.replace("_", " ") };
  if (!state || (state.status === "waiting" && time === 0)) return { kind: "waits", text: "waits" };
  if (silent >= stall_s) return { kind: "stalls", text: `stalled for ${silent.toFixed(1)} s` };
  return { kind: "comes", text: "coming" };
}

interface Props {
  watched: Watched;
  flow: number;
  /** When the first of all was complete. */
  first_s: number | null;
  /** Size of the picture, as far as it is known; told by whoever learns it first. */
  total: number | null;
  onTotal: (total: number) => void;
}

export function Screen({ watched, flow, first_s, total, onTotal }: Props) {
  const { run, tracks } = watched;
  const name = run.transports[flow] ?? "";
  const ended = run.transfers.find((transfer) => transfer.flow === flow);
  const complete_s = completeAfter(watched, flow, total);
  const isOver = ended !== undefined || (run.status !== "running" && run.status !== "queued");
  const { canvas, received } = useReceived(run.id, flow, run.spec.image, isOver);
  useEffect(() => {
    if (received.total !== null) onTotal(received.total);
  }, [received.total]);
  const track = tracks.of(flow);
  const time = complete_s ?? ended?.time_s ?? track?.last("t") ?? 0;
  const stand = standOf(
    run.flows.find((state) => state.flow === flow),
    ended,
    complete_s,
    isOver ? 0 : silence(track),
    time,
  );
  const goodput = ended
    ? ended.goodput_mbps
    : complete_s !== null
      ? meanGoodput(track, complete_s)
      : recentGoodput(track);
  const lost = ended
    ? ended.lost_packets
    : (track?.last("lost_packets") ?? 0) + (track?.last("dropped_packets") ?? 0);
  const offered = ended?.offered_packets ?? track?.last("offered_packets") ?? 0;
  const repair = ended?.repair_packets ?? track?.last("repair_packets") ?? 0;
  const share = received.total ? received.bytes / received.total : 0;
  const behind =
    complete_s !== null && first_s !== null && complete_s > first_s ? complete_s / first_s : null;
  return (
    <article class={`screen ${stand.kind}`} style={{ "--own": colourOf(name) }} aria-label={name}>
      <header>
        <TransportName transport={name} />
        <output class="stand" title={stand.reason && `does not count: ${stand.reason}`}>
          {(stand.kind === "complete" || stand.kind === "doubtful") && <i aria-hidden="true">✓ </i>}
          {stand.kind === "stalls" && <i aria-hidden="true">▲ </i>}
          {stand.text}
          {behind !== null && <small> · {number(behind)} × the first</small>}
        </output>
      </header>
      <div class="tube">
        <canvas ref={canvas} width={320} height={200} aria-label={`the picture as ${name} has it`} />
      </div>
      <div
        class="bar"
        role="progressbar"
        aria-label="received"
        aria-valuemin={0}
        aria-valuemax={100}
        aria-valuenow={Math.round(share * 100)}
      >
        <i style={{ width: `${share * 100}%` }} />
      </div>
      <dl>
        <Readout
          label={ended || complete_s !== null ? "mean" : "goodput"}
          value={goodput === null ? "–" : number(goodput)}
          unit="Mbit/s"
        />
        <Readout label="time" value={duration(time)} />
        <Readout
          label="lost"
          value={offered > 0 ? percent(lost / offered) : "–"}
          title={`${lost} of ${offered} packets`}
        />
        <Readout label="repair" value={repair.toLocaleString("en-GB")} unit="pkts" />
        <Readout label="here" value={received.total ? percent(share) : "–"} title={bytes(received.bytes)} />
      </dl>
    </article>
  );
}
