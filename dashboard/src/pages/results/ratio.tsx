// Measured over published, on a logarithmic scale: one tick for each cell, a line where both are equal.

import type { ResultCell } from "../../desk/types.ts";
import { number } from "../../units.ts";

/** The scale ends at a hundredth and at a hundredfold; what lies beyond stands at its end. */
const decades = 2;

export const ratioPlace = (ratio: number): number =>
  50 + (Math.max(-decades, Math.min(decades, Math.log10(ratio))) / decades) * 48;

export function RatioPlot({ cells }: { cells: readonly ResultCell[] }) {
  const ratios = cells.flatMap((cell) => (cell.ratio !== null && cell.ratio > 0 ? [cell.ratio] : []));
  if (ratios.length === 0) return null;
  return (
    <svg class="ratios" height="18" role="img" aria-label={`ratios: ${ratios.map(number).join(", ")}`}>
      <rect
        x={`${ratioPlace(0.8)}%`}
        width={`${ratioPlace(1.25) - ratioPlace(0.8)}%`}
        y="1"
        height="16"
        class="near"
      />
      <line x1="0" x2="100%" y1="9" y2="9" class="grid" />
      <line x1="50%" x2="50%" y1="0" y2="18" class="one" />
      {ratios.map((ratio, index) => (
        <line
          key={index}
          x1={`${ratioPlace(ratio)}%`}
          x2={`${ratioPlace(ratio)}%`}
          y1="3"
          y2="15"
          class="tick"
        >
          <title>{number(ratio)}</title>
        </line>
      ))}
    </svg>
  );
}

/** `0.93`, or the range of several: `0.4 – 2.1`. */
export function ratioWords(cells: readonly ResultCell[]): string {
  const ratios = cells.flatMap((cell) => cell.ratio ?? []);
  if (ratios.length === 0) return "–";
  const min = Math.min(...ratios);
  const max = Math.max(...ratios);
  return max / min < 1.02 ? number(max) : `${number(min)} – ${number(max)}`;
}
