// How a run stands: lamp, steps, progress. Words stand beside every colour.

import type { RunSummary, Status } from "../desk/types.ts";
import { duration, left } from "../units.ts";

const signs: Record<Status, string> = { queued: "◌", running: "●", done: "✓", stopped: "■", failed: "✕" };

export function Lamp({ status }: { status: Status }) {
  return (
    <span class={`lamp ${status}`}>
      <i aria-hidden="true">{signs[status]}</i>
      <span>{status}</span>
    </span>
  );
}

const steps = [
  "waiting",
  "configuration to the bridge",
  "delay on",
  "handshake",
  "faults on",
  "data",
  "faults off",
  "ends of connections",
  "delay off",
];

/** The eight steps of a transfer (LT-TCP thesis, 2.1), the present one lit. */
export function Steps({ run }: { run: RunSummary }) {
  if (run.status !== "running") return null;
  return (
    <p class="steps-track" title="The eight steps of a transfer, as in the LT-TCP thesis, 2.1">
      {steps.slice(1).map((name, index) => (
        <i
          key={name}
          class={index + 1 < run.steps ? "past" : index + 1 === run.steps ? "now" : ""}
          aria-hidden="true"
        />
      ))}
      <span>
        step {run.steps} of 8: {steps[run.steps]}
      </span>
    </p>
  );
}

export function ProgressBar({ run }: { run: RunSummary }) {
  const { done, total, elapsed_s, left_s } = run.progress;
  const estimated =
    left_s === null ? done / Math.max(1, total) : elapsed_s / Math.max(0.001, elapsed_s + left_s);
  const share = run.status === "done" ? 1 : Math.min(1, estimated);
  return (
    <div class="progress">
      <div
        class="bar"
        role="progressbar"
        aria-label="progress of the run"
        aria-valuemin={0}
        aria-valuemax={total}
        aria-valuenow={done}
      >
        <i style={{ width: `${share * 100}%` }} class={run.status} />
      </div>
      <p>
        <span>
          <b>{done}</b> of {total} transfers
        </span>
        <span>
          {duration(elapsed_s)}
          {run.status === "running" ? " so far" : ""}
        </span>
        {run.status === "running" && (
          <span class="left">{left_s === null ? "" : `${left(left_s)} left`}</span>
        )}
      </p>
    </div>
  );
}
