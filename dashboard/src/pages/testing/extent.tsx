// How much is sent, how often, and in which order.

import type { Amount, Spec } from "../../desk/types.ts";
import type { Draft } from "../../setup/draft.ts";
import { Positions, Switch, WordField } from "../../ui/controls.tsx";
import { parseWord } from "../../units.ts";

const sizes: Record<string, number> = {
  "": 1,
  B: 1,
  kB: 1e3,
  KiB: 1024,
  MB: 1e6,
  MiB: 1024 ** 2,
  GB: 1e9,
  GiB: 1024 ** 3,
};

/** Bytes as a word that says the same: `5MB`. */
function sizeWord(size: number): string {
  for (const [unit, factor] of Object.entries(sizes).reverse()) {
    if (unit !== "" && size >= factor && Number.isInteger((size / factor) * 10))
      return `${size / factor}${unit}`;
  }
  return `${size}B`;
}

function toAmount(text: string, isSize: boolean): Amount | null {
  const word = parseWord(text);
  if (word === null || word.value <= 0) return null;
  if (!isSize) {
    const factor = { "": 1, s: 1, min: 60, ms: 0.001 }[word.unit];
    return factor === undefined ? null : { seconds: word.value * factor };
  }
  const factor = sizes[word.unit];
  return factor === undefined ? null : { bytes: Math.round(word.value * factor) };
}

/** The word last written for an amount: kept while it is being typed, so that `1.` does not become `1`. */
const typed = new WeakMap<Amount, string>();

function amountWord(amount: Amount): string {
  return typed.get(amount) ?? ("bytes" in amount ? sizeWord(amount.bytes) : `${amount.seconds}s`);
}

export function Extent({
  draft,
  unread,
  onUnread,
}: {
  draft: Draft;
  unread: string | null;
  onUnread: (text: string | null) => void;
}) {
  const { spec, set, errors } = draft;
  const isSize = "bytes" in spec.amount;
  const change = (text: string): void => {
    const amount = toAmount(text, isSize);
    onUnread(amount ? null : text);
    if (!amount) return;
    typed.set(amount, text);
    set({ amount });
  };
  const count = (text: string, key: "transfers" | "seed"): void => {
    const value = Number(text);
    if (Number.isInteger(value) && value >= 0) set({ [key]: value });
  };
  return (
    <div class="extent">
      <Positions
        label="Each transfer"
        value={isSize ? "size" : "time"}
        options={[
          { value: "size", label: "a size" },
          { value: "time", label: "a time" },
        ]}
        onChange={(kind) => {
          onUnread(null);
          set({ amount: kind === "size" ? { bytes: 5_000_000 } : { seconds: 5 } });
        }}
      />
      <div class="pair">
        <WordField
          label={isSize ? "Size" : "Time"}
          value={unread ?? amountWord(spec.amount)}
          error={
            unread !== null
              ? isSize
                ? "a size: 5MB, 512KiB"
                : "a time: 5s, 500ms"
              : (errors["amount"] ?? errors["amount.bytes"] ?? errors["amount.seconds"])
          }
          floor={1}
          onChange={change}
        />
        <WordField
          label="Transfers of each"
          value={String(spec.transfers ?? 1)}
          error={errors["transfers"]}
          floor={1}
          max={1000}
          onChange={(text) => count(text, "transfers")}
        />
        <WordField
          label="First seed"
          value={String(spec.seed ?? 1)}
          error={errors["seed"]}
          floor={1}
          onChange={(text) => count(text, "seed")}
        />
      </div>
      <Positions
        label="Order"
        value={spec.order ?? "in_turn"}
        options={[
          { value: "in_turn", label: "in turn", title: "one transfer at a time" },
          {
            value: "together",
            label: "side by side",
            title: "each over a path of its own with the same losses",
          },
        ]}
        onChange={(order) => set({ order })}
      />
      <div class="switches">
        <Option
          draft={draft}
          name="loss_free_handshake"
          label="loss-free handshake"
          hint="As in the LT-TCP thesis (2.1): faults begin when the connections are open"
          standard
        />
        <Option
          draft={draft}
          name="drops_outliers"
          label="leave out outliers"
          hint="By the rule of the LT-TCP thesis (2.2), for the saved experiment. The result shows both"
        />
        <Option
          draft={draft}
          name="ecn"
          label="kernel TCP negotiates ECN"
          hint="so that marks are obeyed instead of unseen"
        />
      </div>
    </div>
  );
}

function Option(props: {
  draft: Draft;
  name: "loss_free_handshake" | "drops_outliers" | "ecn";
  label: string;
  hint: string;
  standard?: boolean;
}) {
  const { draft, name } = props;
  const value: boolean = (draft.spec as Spec)[name] ?? props.standard ?? false;
  return (
    <Switch
      label={props.label}
      hint={props.hint}
      isOn={value}
      onChange={(isOn) => draft.set({ [name]: isOn })}
    />
  );
}
