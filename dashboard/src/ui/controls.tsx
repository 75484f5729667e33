// The knobs of the desk.

import type { ComponentChildren } from "preact";
import { useId, useState } from "preact/hooks";

import { stepWord } from "../units.ts";

export interface WordProps {
  label: string;
  value: string;
  onChange: (value: string) => void;
  /** What an empty field means. */
  placeholder?: string | undefined;
  error?: string | null | undefined;
  hint?: string | undefined;
  /** Smallest step above zero, and the end of the dial. */
  floor?: number | undefined;
  max?: number | undefined;
  /** What the first step up from an empty field writes. */
  first?: string | undefined;
  list?: string | undefined;
  hidesLabel?: boolean;
  isDisabled?: boolean;
}

/** A value with its unit as a word, with a dial in steps of 1, 2, 5 (buttons, arrow keys). */
export function WordField(props: WordProps) {
  const { label, value, onChange, error, floor, max } = props;
  const id = useId();
  const turn = (up: boolean): void => {
    const from = value === "" || value === "none" ? null : value;
    if (from === null) {
      if (up && props.first !== undefined) onChange(props.first);
      return;
    }
    onChange(stepWord(from, up, floor ?? 1, max ?? 1e12));
  };
  const onKeyDown = (event: KeyboardEvent): void => {
    if (event.key !== "ArrowUp" && event.key !== "ArrowDown") return;
    event.preventDefault();
    turn(event.key === "ArrowUp");
  };
  return (
    <div class={`word ${error ? "wrong" : ""}`}>
      <label for={id} class={props.hidesLabel ? "sr" : ""} title={props.hint}>
        {label}
      </label>
      <div class="dial">
        <input
          id={id}
          type="text"
          autocomplete="off"
          spellcheck={false}
          value={value}
          placeholder={props.placeholder}
          list={props.list}
          disabled={props.isDisabled}
          aria-invalid={error ? "true" : undefined}
          aria-describedby={error ? `${id}-error` : undefined}
          onInput={(event) => onChange(event.currentTarget.value)}
          onKeyDown={onKeyDown}
        />
        <span class="steps" aria-hidden="true">
          <button type="button" tabIndex={-1} disabled={props.isDisabled} onClick={() => turn(true)}>
            ▴
          </button>
          <button type="button" tabIndex={-1} disabled={props.isDisabled} onClick={() => turn(false)}>
            ▾
          </button>
        </span>
      </div>
      {error && (
        <p class="error" id={`${id}-error`} role="alert">
          {error}
        </p>
      )}
    </div>
  );
}

export interface Option<T extends string> {
  value: T;
  label: string;
  title?: string | undefined;
  isDisabled?: boolean;
}

/** One of a few: a switch with positions. */
export function Positions<T extends string>(props: {
  label: string;
  value: T;
  options: readonly Option<T>[];
  onChange: (value: T) => void;
}) {
  const name = useId();
  return (
    <fieldset class="positions">
      <legend>{props.label}</legend>
      <div>
        {props.options.map((option) => (
          <label key={option.value} title={option.title} class={option.isDisabled ? "off" : ""}>
            <input
              type="radio"
              name={name}
              checked={option.value === props.value}
              disabled={option.isDisabled}
              onChange={() => props.onChange(option.value)}
            />
            <span>{option.label}</span>
          </label>
        ))}
      </div>
    </fieldset>
  );
}

export function Switch(props: {
  label: string;
  isOn: boolean;
  onChange: (isOn: boolean) => void;
  hint?: string;
}) {
  return (
    <label class="switch" title={props.hint}>
      <input
        type="checkbox"
        role="switch"
        checked={props.isOn}
        onChange={(event) => props.onChange(event.currentTarget.checked)}
      />
      <i aria-hidden="true" />
      <span>{props.label}</span>
    </label>
  );
}

/** A slider over given stops; a value between them gets a stop of its own. */
export function StopSlider(props: {
  label: string;
  value: string;
  stops: readonly string[];
  sizeOf: (word: string) => number;
  onChange: (value: string) => void;
  isDisabled?: boolean;
}) {
  const { value, sizeOf } = props;
  const id = useId();
  const stops = [...props.stops];
  let index = stops.findIndex((stop) => sizeOf(stop) === sizeOf(value));
  if (index < 0) {
    stops.push(value);
    stops.sort((a, b) => sizeOf(a) - sizeOf(b));
    index = stops.indexOf(value);
  }
  return (
    <div class="slider">
      <label for={id}>{props.label}</label>
      <output for={id}>{value}</output>
      <input
        id={id}
        type="range"
        min={0}
        max={stops.length - 1}
        step={1}
        value={index}
        aria-valuetext={value}
        disabled={props.isDisabled}
        onInput={(event) => {
          const stop = stops[Number(event.currentTarget.value)];
          if (stop !== undefined) props.onChange(stop);
        }}
      />
      <span class="ticks" aria-hidden="true">
        {stops.map((stop, at) => (
          <i key={stop} class={at === index ? "here" : ""}>
            {at % 2 === 0 || at === index || stops.length < 8 ? stop.replace(/[a-z%]+$/, "") || stop : ""}
          </i>
        ))}
      </span>
    </div>
  );
}

/** A command with a button that copies it. */
export function Command({ text }: { text: string }) {
  const [isCopied, setCopied] = useState(false);
  const copy = async (): Promise<void> => {
    await navigator.clipboard?.writeText(text).then(
      () => setCopied(true),
      () => undefined,
    );
    setTimeout(() => setCopied(false), 1500);
  };
  return (
    <div class="command">
      <code>{text}</code>
      <button type="button" class="quiet" onClick={() => void copy()}>
        {isCopied ? "copied" : "copy"}
      </button>
    </div>
  );
}

export function Panel(props: {
  title: string;
  aside?: ComponentChildren;
  children: ComponentChildren;
  class?: string;
}) {
  const id = useId();
  return (
    <section class={`panel ${props.class ?? ""}`} aria-labelledby={id}>
      <header>
        <h2 id={id}>{props.title}</h2>
        {props.aside}
      </header>
      {props.children}
    </section>
  );
}
