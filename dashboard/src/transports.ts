// A transport keeps its colour, line and marker on every page. Hue tells families apart, the line's pattern their
// members, so that sixteen transports need no more than the eight hues that colour-blind people can tell apart.

export type Hue = "orange" | "sky" | "green" | "yellow" | "blue" | "vermillion" | "purple" | "ink";
export type Shape = "disc" | "square" | "triangle" | "diamond" | "cross" | "hexagon";

export interface Look {
  hue: Hue;
  /** Lengths of strokes and gaps in pixels; none for a full line. */
  dash: readonly number[];
  shape: Shape;
}

const full: readonly number[] = [];
const dashed: readonly number[] = [7, 4];
const dotted: readonly number[] = [2, 4];

const looks: Record<string, Look> = {
  "lt-tcp": { hue: "orange", dash: full, shape: "disc" },
  auto: { hue: "blue", dash: full, shape: "disc" },
  "tcp-cubic": { hue: "vermillion", dash: full, shape: "square" },
  cubic: { hue: "vermillion", dash: dashed, shape: "square" },
  "tcp-bbr": { hue: "purple", dash: full, shape: "diamond" },
  bbr: { hue: "purple", dash: dashed, shape: "diamond" },
  "tcp-reno": { hue: "green", dash: full, shape: "triangle" },
  newreno: { hue: "green", dash: dashed, shape: "triangle" },
  reno: { hue: "green", dash: dotted, shape: "triangle" },
  ctcp: { hue: "sky", dash: full, shape: "disc" },
  "tcp-nc": { hue: "sky", dash: dashed, shape: "disc" },
  "tcp-nc-adaptive": { hue: "sky", dash: dotted, shape: "disc" },
  dfcp: { hue: "yellow", dash: full, shape: "square" },
  "dfcp-raptorq": { hue: "yellow", dash: dashed, shape: "square" },
  "tcp-fec": { hue: "ink", dash: full, shape: "diamond" },
  "tcp-fec-interleave": { hue: "ink", dash: dashed, shape: "diamond" },
  "no-cc": { hue: "ink", dash: dotted, shape: "disc" },
};

const hues: readonly Hue[] = ["orange", "sky", "green", "yellow", "blue", "vermillion", "purple", "ink"];
const shapes: readonly Shape[] = ["disc", "square", "triangle", "diamond"];
/** For what this page does not know by name: other controls of the kernel, peers. */
const strangeShapes: readonly Shape[] = ["cross", "hexagon"];

/** The name without its settings: `lt-tcp` of `lt-tcp:p=0.05`. */
export function family(transport: string): string {
  const bare = transport.replace(/^fulmar[-:]/, "");
  return bare.startsWith("peer-") ? bare : (bare.split(":")[0] ?? bare);
}

/** How a transport is drawn, everywhere. One with settings of its own is its family's colour in another pattern. */
export function lookOf(transport: string): Look {
  const name = family(transport);
  const known = looks[name];
  const number = checksum(transport);
  if (known === undefined) {
    return { hue: pick(hues, number), dash: [9, 3, 2, 3], shape: pick(strangeShapes, number >> 3) };
  }
  const hasSettings = transport.includes(":");
  return hasSettings ? { ...known, dash: [4 + (number % 5), 3, 2, 3], shape: pick(shapes, number) } : known;
}

function checksum(text: string): number {
  let sum = 0;
  for (const letter of text) sum = (sum * 31 + letter.charCodeAt(0)) & 0xffff;
  return sum;
}

function pick<T>(from: readonly T[], number: number): T {
  return from[number % from.length] as T;
}

/** The colour as CSS; follows the theme. */
export function colourOf(transport: string): string {
  return `var(--hue-${lookOf(transport).hue})`;
}

/** The colour as it is now, for canvases. */
export function paintOf(transport: string): string {
  return getComputedStyle(document.documentElement)
    .getPropertyValue(`--hue-${lookOf(transport).hue}`)
    .trim();
}
