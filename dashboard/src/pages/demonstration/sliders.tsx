// Loss, burst and delay under the person's hand. While a run is under way they act on it, and follow what others do.

import { useEffect, useRef, useState } from "preact/hooks";

import { Refusal, send } from "../../desk/client.ts";
import type { Link, Path, Run } from "../../desk/types.ts";
import { settingOf } from "../../setup/path.tsx";
import { StopSlider } from "../../ui/controls.tsx";
import { milliseconds, parseWord } from "../../units.ts";

type Moved = "loss" | "burst" | "delay";

const stops: Record<Moved, { label: string; words: readonly string[] }> = {
  loss: {
    label: "Loss",
    words: ["0%", "0.1%", "0.5%", "1%", "2%", "3%", "5%", "7%", "10%", "15%", "20%", "30%"],
  },
  burst: { label: "Mean burst, packets", words: ["none", "2", "3", "4", "5", "7", "10", "15", "20"] },
  delay: { label: "Delay, one way", words: ["1ms", "2ms", "5ms", "10ms", "20ms", "50ms", "100ms", "200ms"] },
};

function sizeOf(name: Moved, word: string): number {
  if (name === "delay") return milliseconds(word) ?? 0;
  const parsed = parseWord(word);
  if (parsed === null) return 0;
  return name === "loss" && parsed.unit !== "%" ? parsed.value * 100 : parsed.value;
}

/** Sends the last of many moves, one request at a time. */
function useSteering(run: Run | null) {
  const due = useRef<Partial<Link> | null>(null);
  const isSending = useRef(false);
  const [error, setError] = useState<string | null>(null);
  const flush = async (id: string): Promise<void> => {
    if (isSending.current) return;
    isSending.current = true;
    while (due.current) {
      const forward = due.current;
      due.current = null;
      try {
        await send<Path>("PATCH", `runs/${encodeURIComponent(id)}/path`, { forward });
        setError(null);
      } catch (problem) {
        setError(problem instanceof Refusal ? problem.message : String(problem));
      }
      await new Promise((resolve) => setTimeout(resolve, 100));
    }
    isSending.current = false;
  };
  return {
    error,
    move: (change: Partial<Link>) => {
      if (!run) return;
      due.current = { ...due.current, ...change };
      void flush(run.id);
    },
  };
}

export function Sliders(props: {
  run: Run | null;
  path: Path;
  isSteerable: boolean;
  onDraft: (link: Partial<Link>) => void;
}) {
  const { run, path, isSteerable, onDraft } = props;
  const { move, error } = useSteering(run);
  // What the hand has just set is shown at once; the controller's word replaces it when it comes.
  const [held, setHeld] = useState<Partial<Link>>({});
  useEffect(() => setHeld({}), [path]);
  const isLocked = run !== null && !isSteerable;
  return (
    <div class={`sliders ${run ? "acts" : ""}`}>
      {(Object.keys(stops) as Moved[]).map((name) => (
        <StopSlider
          key={name}
          label={stops[name].label}
          stops={stops[name].words}
          value={held[name] ?? settingOf(path.forward, name)}
          sizeOf={(word) => sizeOf(name, word)}
          isDisabled={isLocked}
          onChange={(word) => {
            setHeld((was) => ({ ...was, [name]: word }));
            if (run) move({ [name]: word });
            else onDraft({ [name]: word });
          }}
        />
      ))}
      {error && (
        <p class="error" role="alert">
          {error}
        </p>
      )}
    </div>
  );
}
