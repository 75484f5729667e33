// Experiments as files: from the person's machine, from those that come with Fulmar, and back.

import { useEffect, useRef, useState } from "preact/hooks";

import { get, Refusal, request, save } from "../../desk/client.ts";
import type { Loaded, Spec } from "../../desk/types.ts";

interface Props {
  spec: Spec;
  onLoad: (spec: Spec) => void;
  /** Puts all of them into the queue. */
  onStartAll: (specs: Spec[]) => void;
}

function LoadedCells({ loaded, onLoad, onStartAll }: { loaded: Loaded } & Omit<Props, "spec">) {
  const [at, setAt] = useState(0);
  const choose = (index: number): void => {
    const cell = loaded.specs[index];
    if (!cell) return;
    setAt(index);
    onLoad(cell.spec);
  };
  return (
    <div class="loaded">
      <p>
        <b>{loaded.title}</b>
        {loaded.source && <small> {loaded.source}</small>}
      </p>
      {loaded.specs.length > 1 && (
        <p class="row">
          <label class="pick">
            <span>Cell</span>
            <select value={at} onChange={(event) => choose(Number(event.currentTarget.value))}>
              {loaded.specs.map((cell, index) => (
                <option key={cell.label} value={index}>
                  {cell.label}
                </option>
              ))}
            </select>
          </label>
          <button type="button" onClick={() => onStartAll(loaded.specs.map((cell) => cell.spec))}>
            Start all {loaded.specs.length}
          </button>
        </p>
      )}
      {loaded.notes.map((note) => (
        <p class="note" key={note}>
          {note}
        </p>
      ))}
      {loaded.remark && (
        <details class="more">
          <summary>Remark</summary>
          <p class="note">{loaded.remark}</p>
        </details>
      )}
    </div>
  );
}

export function ExperimentFiles({ spec, onLoad, onStartAll }: Props) {
  const [names, setNames] = useState<{ name: string; title: string; source: string }[]>([]);
  const [loaded, setLoaded] = useState<Loaded | null>(null);
  const [error, setError] = useState<string | null>(null);
  const file = useRef<HTMLInputElement>(null);
  useEffect(() => {
    get<typeof names>("experiments").then(setNames, () => setNames([]));
  }, []);

  const attempt = async (work: () => Promise<Loaded | void>): Promise<void> => {
    try {
      setError(null);
      const found = await work();
      if (!found) return;
      setLoaded(found);
      const first = found.specs[0];
      if (first) onLoad(first.spec);
    } catch (problem) {
      setError(problem instanceof Refusal ? problem.message : String(problem));
    }
  };
  const read = async (chosen: File): Promise<Loaded> => {
    const answer = await request("experiments/read", {
      method: "POST",
      headers: { "Content-Type": "text/plain" },
      body: await chosen.text(),
    });
    return (await answer.json()) as Loaded;
  };
  const write = async (): Promise<void> => {
    const body = JSON.stringify(spec);
    const headers = { "Content-Type": "application/json" };
    const answer = await request("experiments/write", { method: "POST", headers, body });
    save("experiment.toml", await answer.text(), "application/toml");
  };
  return (
    <div class="experiment-files">
      <p class="row">
        <button type="button" onClick={() => file.current?.click()}>
          Open TOML …
        </button>
        <input
          ref={file}
          type="file"
          accept=".toml"
          hidden
          onChange={(event) => {
            const chosen = event.currentTarget.files?.[0];
            event.currentTarget.value = "";
            if (chosen) void attempt(() => read(chosen));
          }}
        />
        <button type="button" onClick={() => void attempt(write)}>
          Save TOML
        </button>
      </p>
      {names.length > 0 && (
        <label class="pick">
          <span>Experiment</span>
          <select
            value=""
            onChange={(event) => {
              const name = event.currentTarget.value;
              event.currentTarget.value = "";
              if (name) void attempt(() => get<Loaded>(`experiments/${encodeURIComponent(name)}`));
            }}
          >
            <option value="">that comes with Fulmar …</option>
            {names.map(({ name, title }) => (
              <option key={name} value={name}>
                {name}: {title}
              </option>
            ))}
          </select>
        </label>
      )}
      {error && (
        <p class="error" role="alert">
          {error}
        </p>
      )}
      {loaded && (
        <LoadedCells
          key={loaded.name + loaded.title}
          loaded={loaded}
          onLoad={onLoad}
          onStartAll={onStartAll}
        />
      )}
    </div>
  );
}
