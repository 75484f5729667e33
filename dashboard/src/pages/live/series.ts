// The charts of the live page: which measures each shows, and how its numbers are written.

import type { Track } from "../../desk/samples.ts";
import { bytes, mbps, percent } from "../../units.ts";

type Column = (number | null)[];

export interface Curve {
  /** Added to the transport's name; "" for the main curve. */
  suffix: string;
  dash?: readonly number[];
  of: (track: Track) => Column;
}

export interface ChartKind {
  id: string;
  title: string;
  unit: string;
  format: (value: number) => string;
  curves: readonly Curve[];
  hasSteps?: boolean;
}

const over_s = 1;

/** Bytes received in the last quarter of a second: two samples can lie so close together that their slope says nothing. */
function recentGoodput(track: Track): Column {
  const { t, received_bytes } = track.columns;
  let from = 0;
  return t.map((now, index) => {
    while (from + 1 < index && (now ?? 0) - (t[from + 1] ?? 0) >= 0.25) from += 1;
    const span = (now ?? 0) - (t[from] ?? 0);
    if (span < 0.05) return null;
    return (((received_bytes[index] ?? 0) - (received_bytes[from] ?? 0)) * 8) / span / 1e6;
  });
}

/** Lost or dropped over offered in the last second: a tenth of a second has too few packets to say. */
function recentLoss(track: Track): Column {
  const { t, lost_packets, dropped_packets, offered_packets } = track.columns;
  let from = 0;
  return t.map((now, index) => {
    while (from < index && (now ?? 0) - (t[from] ?? 0) > over_s) from += 1;
    const offered = (offered_packets[index] ?? 0) - (offered_packets[from] ?? 0);
    if (offered <= 0) return null;
    const gone = (at: number): number => (lost_packets[at] ?? 0) + (dropped_packets[at] ?? 0);
    return (gone(index) - gone(from)) / offered;
  });
}

const plainly = (name: "pacing_mbps" | "window_bytes" | "in_flight_bytes" | "rtt_ms"): Curve => ({
  suffix: "",
  of: (track) => track.columns[name],
});

export const charts: readonly ChartKind[] = [
  {
    id: "goodput",
    title: "Goodput",
    unit: "Mbit/s",
    format: mbps,
    curves: [{ suffix: "", of: recentGoodput }],
  },
  {
    id: "sequence",
    title: "Sequence number",
    unit: "bytes against time",
    format: bytes,
    curves: [
      { suffix: "", of: (track) => track.columns.sequence_bytes },
      { suffix: " received", dash: [2, 3], of: (track) => track.columns.received_bytes },
    ],
  },
  {
    id: "window",
    title: "Window",
    unit: "bytes",
    format: bytes,
    curves: [plainly("window_bytes")],
    hasSteps: true,
  },
  { id: "flight", title: "In flight", unit: "bytes", format: bytes, curves: [plainly("in_flight_bytes")] },
  {
    id: "rtt",
    title: "Round trip",
    unit: "ms",
    format: (value) => `${Number(value.toPrecision(3))}\u202fms`,
    curves: [plainly("rtt_ms")],
  },
  {
    id: "queue",
    title: "Queue",
    unit: "bytes",
    format: bytes,
    curves: [{ suffix: "", of: (track) => track.columns.queue_bytes }],
  },
  {
    id: "loss",
    title: "Loss",
    unit: "of the last second; dotted: the sender’s estimate",
    format: percent,
    curves: [
      { suffix: "", of: recentLoss },
      { suffix: " estimate", dash: [2, 3], of: (track) => track.columns.loss_estimate },
    ],
  },
  {
    id: "repair",
    title: "Repair",
    unit: "packets so far",
    format: (value) => Math.round(value).toLocaleString("en-GB"),
    curves: [{ suffix: "", of: (track) => track.columns.repair_packets }],
  },
];
