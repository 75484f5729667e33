// Numbers for people, and the words of the laboratory (`100M`, `20ms`, `5%`, `1000p`) in both directions.

const space = "\u202f";

function digits(value: number): string {
  const size = Math.abs(value);
  if (size === 0) return "0";
  if (size >= 100) return Math.round(value).toLocaleString("en-GB");
  return value.toFixed(size >= 10 ? 1 : size >= 0.1 ? 2 : 3);
}

/** Scaled by thousands: 12.3 M. */
export function scaled(value: number, unit: string): string {
  const steps = ["", "k", "M", "G"];
  let step = 0;
  let size = value;
  while (Math.abs(size) >= 1000 && step < steps.length - 1) {
    size /= 1000;
    step += 1;
  }
  return `${digits(size)}${space}${steps[step]}${unit}`;
}

export const bytes = (value: number): string => scaled(value, "B");
export const mbps = (value: number): string => `${digits(value)}${space}Mbit/s`;
export const percent = (share: number): string => `${digits(share * 100)}${space}%`;
export const number = (value: number): string => digits(value);

/** 340 ms, 12.3 s, 4:05 min. */
export function duration(seconds: number): string {
  if (seconds < 1) return `${Math.round(seconds * 1000)}${space}ms`;
  if (seconds < 100) return `${seconds.toFixed(seconds < 10 ? 2 : 1)}${space}s`;
  const whole = Math.round(seconds);
  const pad = (n: number): string => String(n).padStart(2, "0");
  if (whole < 3600) return `${Math.floor(whole / 60)}:${pad(whole % 60)}${space}min`;
  return `${Math.floor(whole / 3600)}:${pad(Math.floor(whole / 60) % 60)}:${pad(whole % 60)}${space}h`;
}

/** What is left, rounded so that it does not flicker. */
export function left(seconds: number): string {
  return seconds < 60 ? `${Math.max(0, Math.ceil(seconds))}${space}s` : duration(Math.ceil(seconds));
}

/** A word of the laboratory: a number and what follows it. */
export interface Word {
  value: number;
  unit: string;
}

/** Takes `12.5ms` apart; null for `auto` and other words without a number. */
export function parseWord(text: string): Word | null {
  const match = /^\s*(\d+(?:\.\d+)?|\.\d+)\s*([a-zA-Z%]*)\s*$/.exec(text);
  return match ? { value: Number(match[1]), unit: match[2] ?? "" } : null;
}

/** The next step up or down in 1, 2, 5, 10 .., as the dials of instruments have it. */
export function step125(value: number, up: boolean, floor: number): number {
  if (value <= 0) return up ? floor : 0;
  const power = 10 ** Math.floor(Math.log10(value) + 1e-9);
  const marks = [0.5, 1, 2, 5, 10].map((mark) => mark * power);
  const next = up
    ? marks.find((mark) => mark > value * 1.001)
    : marks.reverse().find((mark) => mark < value * 0.999);
  const result = Number((next ?? value).toPrecision(6));
  return !up && result < floor * 0.999 ? 0 : result;
}

/** Moves a word one step; a word without a number stays. */
export function stepWord(text: string, up: boolean, floor: number, max: number): string {
  const word = parseWord(text);
  if (word === null) return text;
  return `${Math.min(max, step125(word.value, up, floor))}${word.unit}`;
}

/** A word of time in milliseconds; null if it is none. */
export function milliseconds(text: string): number | null {
  const word = parseWord(text);
  if (word === null) return null;
  const scale: Record<string, number> = { us: 1e-3, ms: 1, s: 1000, min: 60_000, "": 1000 };
  const factor = scale[word.unit];
  return factor === undefined ? null : word.value * factor;
}
