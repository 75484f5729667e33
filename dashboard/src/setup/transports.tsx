// Which transports take part: those chosen as marks in their colours, all others in a list by kind.

import { useState } from "preact/hooks";

import type { Catalogue, DriverName, TransportChoice } from "../desk/types.ts";
import { colourOf, family } from "../transports.ts";
import { Swatch } from "../ui/swatch.tsx";

const kinds: readonly { kind: TransportChoice["kind"]; title: string }[] = [
  { kind: "kernel", title: "Kernel TCP" },
  { kind: "profile", title: "Fulmar’s profiles" },
  { kind: "peer", title: "Other transports" },
];

interface Props {
  catalogue: Catalogue;
  driver: DriverName;
  chosen: string[];
  errors: Record<string, string>;
  onChange: (transports: string[]) => void;
}

function obstacle(choice: TransportChoice, driver: DriverName): string {
  if (!choice.drivers.includes(driver)) return `not with the driver “${driver}”`;
  return choice.missing;
}

function Choice(props: { choice: TransportChoice; why: string; isOn: boolean; onToggle: () => void }) {
  const { choice, why, isOn } = props;
  return (
    <label class={`choice ${isOn ? "on" : ""} ${why ? "off" : ""}`} title={why || choice.title}>
      <input type="checkbox" checked={isOn} disabled={why !== "" && !isOn} onChange={props.onToggle} />
      <Swatch transport={choice.name} />
      <span>{choice.name.replace(/^peer-/, "")}</span>
    </label>
  );
}

/** Any profile may be typed, with settings. */
function Typed({ onAdd }: { onAdd: (name: string) => void }) {
  const [text, setText] = useState("");
  const add = (event: Event): void => {
    event.preventDefault();
    if (text.trim() === "") return;
    onAdd(text.trim());
    setText("");
  };
  return (
    <form class="typed" onSubmit={add}>
      <label class="sr" for="typed-transport">
        profile with settings
      </label>
      <input
        id="typed-transport"
        spellcheck={false}
        placeholder="with settings: lt-tcp:rto_max=5"
        value={text}
        onInput={(event) => setText(event.currentTarget.value)}
      />
      <button type="submit">Add</button>
    </form>
  );
}

export function TransportPicker({ catalogue, driver, chosen, errors, onChange }: Props) {
  const toggle = (name: string): void =>
    onChange(chosen.includes(name) ? chosen.filter((other) => other !== name) : [...chosen, name]);
  const complaints = Object.entries(errors).filter(([field]) => field.startsWith("transports"));
  const titleOf = (name: string): string | undefined =>
    catalogue.transports.find((choice) => choice.name === family(name))?.title;
  return (
    <div class="picker">
      <ul class="chosen" aria-label="chosen transports">
        {chosen.map((name, index) => (
          <li
            key={name}
            class={errors[`transports.${index}`] ? "wrong" : ""}
            style={{ borderColor: colourOf(name) }}
          >
            <Swatch transport={name} />
            <span title={titleOf(name)}>{name}</span>
            <button type="button" class="quiet" aria-label={`remove ${name}`} onClick={() => toggle(name)}>
              ×
            </button>
          </li>
        ))}
      </ul>
      {complaints.map(([field, message]) => (
        <p class="error" role="alert" key={field}>
          {message}
        </p>
      ))}
      <details class="more">
        <summary>Add transports</summary>
        {kinds.map(({ kind, title }) => {
          const choices = catalogue.transports.filter((choice) => choice.kind === kind);
          if (choices.length === 0) return null;
          return (
            <fieldset key={kind} class="choices">
              <legend>{title}</legend>
              {choices.map((choice) => (
                <Choice
                  key={choice.name}
                  choice={choice}
                  why={obstacle(choice, driver)}
                  isOn={chosen.includes(choice.name)}
                  onToggle={() => toggle(choice.name)}
                />
              ))}
            </fieldset>
          );
        })}
        <Typed onAdd={(name) => !chosen.includes(name) && toggle(name)} />
      </details>
    </div>
  );
}
