// In what a test is judged, and how its numbers are written.

import type { Measures, Statistics, Summary, Transfer } from "../../desk/types.ts";
import { number } from "../../units.ts";

export type MeasureName = "mbps" | "kib" | "time";

const kibPerMbps = 1e6 / 8 / 1024;

export interface Measure {
  name: MeasureName;
  label: string;
  unit: string;
  /** From the unit of the interface to this one. */
  factor: number;
  of: (transfer: Transfer) => number;
  pick: (measures: Measures) => Summary | null;
  isMoreBetter: boolean;
}

export const measures: Record<MeasureName, Measure> = {
  mbps: {
    name: "mbps",
    label: "goodput",
    unit: "Mbit/s",
    factor: 1,
    of: (transfer) => transfer.goodput_mbps,
    pick: (m) => m.goodput_mbps,
    isMoreBetter: true,
  },
  kib: {
    name: "kib",
    label: "goodput",
    unit: "KiB/s",
    factor: kibPerMbps,
    of: (transfer) => transfer.goodput_mbps * kibPerMbps,
    pick: (m) => m.goodput_mbps,
    isMoreBetter: true,
  },
  time: {
    name: "time",
    label: "time",
    unit: "s",
    factor: 1,
    of: (transfer) => transfer.time_s,
    pick: (m) => m.time_s,
    isMoreBetter: false,
  },
};

/** A summary in the measure's unit; null if there is none. */
export function summaryOf(
  stats: Statistics | undefined,
  measure: Measure,
  dropsOutliers: boolean,
): Summary | null {
  const found = stats && measure.pick(dropsOutliers ? stats.kept : stats.all);
  if (!found) return null;
  const by = measure.factor;
  const { n, mean, sd, ci95, median, min, max } = found;
  return {
    n,
    mean: mean * by,
    sd: sd * by,
    ci95: ci95 * by,
    median: median * by,
    min: min * by,
    max: max * by,
  };
}

/** So few have no interval: that of two is seven times as wide as their distance. */
export const fewest = 3;

export function isCounted(transfer: Transfer, measure: Measure): boolean {
  const { status } = transfer;
  return status === "complete" || status === "time" || (status === "gave_up" && measure.name !== "time");
}

export function show(value: number, unit: string): string {
  return `${number(value)}\u202f${unit}`;
}
