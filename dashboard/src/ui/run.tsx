// A run's head (title, how it stands, stop) and the list of runs.

import type { ComponentChildren } from "preact";
import { useState } from "preact/hooks";

import { Refusal, send } from "../desk/client.ts";
import type { Run, RunSummary } from "../desk/types.ts";
import { href, type PageName } from "../route.ts";
import { pathWords } from "../setup/path.tsx";
import { left } from "../units.ts";
import { Lamp, ProgressBar, Steps } from "./status.tsx";
import { Swatch } from "./swatch.tsx";

function Stop({ run }: { run: RunSummary }) {
  const [error, setError] = useState<string | null>(null);
  if (run.status !== "running" && run.status !== "queued") return null;
  const stop = (): void => {
    send("POST", `runs/${encodeURIComponent(run.id)}/stop`).catch((problem: unknown) =>
      setError(problem instanceof Refusal ? problem.message : String(problem)),
    );
  };
  return (
    <>
      <button type="button" class="stop" onClick={stop}>
        ■ Stop
      </button>
      {error && <span class="error">{error}</span>}
    </>
  );
}

function Left({ run, complete }: { run: RunSummary; complete: number }) {
  const { done, total, left_s } = run.progress;
  if (run.status !== "running") return null;
  return (
    <output class="compact-left">
      {Math.max(done, complete)} of {total} complete
      {left_s !== null && ` · ${left(left_s)} left`}
    </output>
  );
}

interface HeadProps {
  run: Run;
  /** One line: the page shows path and progress by itself. */
  isCompact?: boolean;
  /** Transfers that are complete, though their round has not ended: it ends with the slowest. */
  complete?: number;
  children?: ComponentChildren;
}

export function RunHead({ run, isCompact, complete, children }: HeadProps) {
  const { forward, backward } = run.spec.path;
  return (
    <section class={`panel run-head ${run.status} ${isCompact ? "compact" : ""}`} aria-label="the run">
      <header>
        <Lamp status={run.status} />
        <h2>{run.title}</h2>
        {isCompact && !complete && <Steps run={run} />}
        {isCompact && <Left run={run} complete={complete ?? 0} />}
        <span class="actions">
          {children}
          <Stop run={run} />
        </span>
      </header>
      {!isCompact && (
        <p class="path-words">
          <span>A → B</span> {pathWords(forward)}
          {backward && (
            <>
              <span>B → A</span> {pathWords(backward)}
            </>
          )}
        </p>
      )}
      {run.error && (
        <p class="error" role="alert">
          {run.error}
        </p>
      )}
      {!isCompact && <ProgressBar run={run} />}
      {!isCompact && <Steps run={run} />}
    </section>
  );
}

function when(unix_s: number): string {
  const date = new Date(unix_s * 1000);
  const isToday = date.toDateString() === new Date().toDateString();
  const time = date.toLocaleTimeString("en-GB", { hour: "2-digit", minute: "2-digit", second: "2-digit" });
  return isToday ? time : `${date.toLocaleDateString("en-GB", { day: "numeric", month: "short" })} ${time}`;
}

export function RunList({ runs, shown, page }: { runs: RunSummary[]; shown: string | null; page: PageName }) {
  const [problem, setProblem] = useState<string | null>(null);
  if (runs.length === 0) return null;
  const forget = (id: string): void => {
    send("DELETE", `runs/${encodeURIComponent(id)}`).catch((error: unknown) => setProblem(String(error)));
  };
  return (
    <details class="panel run-list" open={runs.length > 1}>
      <summary>
        Runs <small>{runs.length}</small>
      </summary>
      {problem && <p class="error">{problem}</p>}
      <ul>
        {runs.map((run) => (
          <li key={run.id} class={run.id === shown ? "shown" : ""}>
            <a href={href(page, run.id)} aria-current={run.id === shown ? "true" : undefined}>
              <Lamp status={run.status} />
              <span class="title">{run.title}</span>
              <span class="marks" aria-hidden="true">
                {run.transports.map((name) => (
                  <Swatch key={name} transport={name} />
                ))}
              </span>
              <time>{when(run.created_unix_s)}</time>
            </a>
            {run.status !== "running" && (
              <button
                type="button"
                class="quiet"
                aria-label={`forget ${run.title}`}
                title="forget it and its files"
                onClick={() => forget(run.id)}
              >
                ×
              </button>
            )}
          </li>
        ))}
      </ul>
    </details>
  );
}
