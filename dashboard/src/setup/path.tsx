// The path: what the link does in each direction, drawn as the thesis' figure 2.1 has it, with a column of dials for each.

import { desk } from "../desk/store.ts";
import type { Catalogue, Link, LinkKey, LinkName, Path, RunPreset } from "../desk/types.ts";
import { Switch, WordField } from "../ui/controls.tsx";
import { parseWord } from "../units.ts";

/** Where the dial of a setting begins and ends, and what its first step writes. */
const dials: Record<LinkName, { floor: number; max: number; first: string }> = {
  rate: { floor: 1, max: 1000, first: "1M" },
  delay: { floor: 1, max: 2000, first: "1ms" },
  queue: { floor: 1, max: 100_000, first: "1bdp" },
  loss: { floor: 0.1, max: 100, first: "0.1%" },
  burst: { floor: 1, max: 100, first: "2" },
  mark: { floor: 0.1, max: 100, first: "0.1%" },
  mark_threshold: { floor: 1, max: 100_000, first: "10p" },
  jitter: { floor: 1, max: 2000, first: "1ms" },
  reorder: { floor: 1, max: 1, first: "" },
  duplicate: { floor: 0.1, max: 100, first: "0.1%" },
  corrupt: { floor: 0.1, max: 100, first: "0.1%" },
  blackout: { floor: 1, max: 1000, first: "" },
};

const often: readonly LinkName[] = ["rate", "delay", "queue", "loss", "burst", "mark", "jitter"];

/** A setting, or what an empty one means. */
export function settingOf(link: Partial<Link>, name: LinkName): string {
  return link[name] || (desk.catalogue?.link_keys.find(({ key }) => key === name)?.default ?? "");
}

/** The path in one line: `100M · 10ms · loss 5% · bursts of 5`. */
export function pathWords(link: Partial<Link>): string {
  const faults = (["queue", "loss", "burst", "mark", "jitter"] as const).flatMap((name) => {
    const word = link[name];
    if (!word || word === "none" || parseWord(word)?.value === 0) return [];
    return name === "burst"
      ? `bursts of ${word}`
      : name === "mark"
        ? `marks ${word}`
        : name === "loss"
          ? `loss ${word}`
          : word;
  });
  return [settingOf(link, "rate"), settingOf(link, "delay"), ...faults].join(" · ");
}

function Schematic({ path }: { path: Path }) {
  const back = path.backward ?? path.forward;
  return (
    <div class="schematic" aria-hidden="true">
      <b>A</b>
      <div>
        <p class="to">{pathWords(path.forward)}</p>
        <p class="fro">{pathWords(back)}</p>
      </div>
      <b>B</b>
    </div>
  );
}

interface Props {
  catalogue: Catalogue;
  path: Path;
  errors: Record<string, string>;
  onChange: (path: Path) => void;
  /** Presets that are whole runs: their path is taken, and what they say else. */
  onPreset?: (preset: RunPreset) => void;
}

function Presets({ catalogue, onChange, onPreset }: Props) {
  const runs = onPreset ? catalogue.run_presets.filter((preset) => preset.spec.kind === "test") : [];
  const choose = (id: string): void => {
    const path = catalogue.path_presets.find((preset) => `path ${preset.id}` === id);
    const run = runs.find((preset) => `run ${preset.id}` === id);
    if (path) onChange(path.path);
    if (run) onPreset?.(run);
  };
  return (
    <label class="pick">
      <span>Preset</span>
      <select
        value=""
        onChange={(event) => {
          choose(event.currentTarget.value);
          event.currentTarget.value = "";
        }}
      >
        <option value="">choose …</option>
        {runs.length > 0 && (
          <optgroup label="Published experiments">
            {runs.map((preset) => (
              <option key={preset.id} value={`run ${preset.id}`}>
                {preset.title}
              </option>
            ))}
          </optgroup>
        )}
        <optgroup label="Paths">
          {catalogue.path_presets.map((preset) => (
            <option key={preset.id} value={`path ${preset.id}`} title={preset.source}>
              {preset.title}
            </option>
          ))}
        </optgroup>
      </select>
    </label>
  );
}

function Row(props: Props & { linkKey: LinkKey; isApart: boolean }) {
  const { linkKey, path, errors, onChange, isApart } = props;
  const { key, title } = linkKey;
  const dial = dials[key];
  const set = (way: "forward" | "backward", word: string): void =>
    onChange({ ...path, [way]: { ...path[way], [key]: word } });
  const field = (way: "forward" | "backward", arrow: string) =>
    linkKey.default === "false" ? (
      <Switch
        label={arrow}
        isOn={path[way]?.[key] === "true"}
        onChange={(isOn) => set(way, isOn ? "true" : "")}
      />
    ) : (
      <WordField
        label={`${title} ${arrow}`}
        hidesLabel
        value={path[way]?.[key] ?? ""}
        placeholder={linkKey.default || "none"}
        error={errors[`path.${way}.${key}`] ?? null}
        floor={dial.floor}
        max={dial.max}
        first={dial.first}
        list={key === "rate" || key === "loss" ? `traces-${key}` : undefined}
        onChange={(word) => set(way, word)}
      />
    );
  return (
    <div class="path-row">
      <span
        class="name"
        title={`for example ${linkKey.example}${linkKey.live ? "; can be moved during a run" : ""}`}
      >
        {title}
      </span>
      {field("forward", "A to B")}
      {isApart && field("backward", "B to A")}
    </div>
  );
}

export function PathEditor(props: Props) {
  const { catalogue, path, onChange } = props;
  const isApart = path.backward !== null;
  const row = (key: LinkKey) => <Row key={key.key} {...props} linkKey={key} isApart={isApart} />;
  const usual = catalogue.link_keys.filter((key) => often.includes(key.key));
  const rare = catalogue.link_keys.filter((key) => !often.includes(key.key));
  const isRareUsed = rare.some(({ key }) => path.forward[key] || path.backward?.[key]);
  return (
    <div class="path">
      <div class="path-top">
        <Presets {...props} />
        <Switch
          label="each direction apart"
          isOn={isApart}
          onChange={(apart) => onChange({ ...path, backward: apart ? { ...path.forward } : null })}
        />
      </div>
      <Schematic path={path} />
      <div class={`path-rows ${isApart ? "apart" : ""}`}>
        {isApart && (
          <div class="path-row ways" aria-hidden="true">
            <span />
            <span>A → B</span>
            <span>B → A</span>
          </div>
        )}
        {usual.map(row)}
        <details class="more" open={isRareUsed}>
          <summary>More faults</summary>
          {rare.map(row)}
        </details>
      </div>
      {(["rate", "loss"] as const).map((key) => (
        <datalist id={`traces-${key}`} key={key}>
          {catalogue.traces
            .filter((trace) => trace[key] !== "")
            .map((trace) => (
              <option key={trace.name} value={trace[key]}>
                {trace.title}
              </option>
            ))}
        </datalist>
      ))}
    </div>
  );
}
