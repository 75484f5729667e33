// A transport's mark beside its name: the colour, the pattern of its line, the shape of its points.

import { colourOf, lookOf, type Shape } from "../transports.ts";

export function shapePath(shape: Shape, size: number): string {
  const r = size / 2;
  switch (shape) {
    case "disc":
      return `M${-r} 0a${r} ${r} 0 1 0 ${size} 0a${r} ${r} 0 1 0 ${-size} 0`;
    case "square":
      return `M${-r} ${-r}h${size}v${size}h${-size}z`;
    case "triangle":
      return `M0 ${-r}L${r} ${r}H${-r}z`;
    case "diamond":
      return `M0 ${-r * 1.2}L${r * 1.2} 0L0 ${r * 1.2}L${-r * 1.2} 0z`;
    case "cross": {
      const arm = r * 0.42;
      return `M${-r} ${-r}h${arm}L0 ${-arm}L${r - arm} ${-r}h${arm}L${arm} 0L${r} ${r}h${-arm}L0 ${arm}L${arm - r} ${r}h${-arm}L${-arm} 0z`;
    }
    case "hexagon":
      return `M${-r} 0L${-r / 2} ${-r}H${r / 2}L${r} 0L${r / 2} ${r}H${-r / 2}z`;
  }
}

export function Swatch({ transport }: { transport: string }) {
  const look = lookOf(transport);
  return (
    <svg
      class="swatch"
      width="30"
      height="12"
      viewBox="0 0 30 12"
      aria-hidden="true"
      style={{ color: colourOf(transport) }}
    >
      <path d="M1 6h28" stroke="currentColor" stroke-width="2" stroke-dasharray={look.dash.join(" ")} />
      <path d={shapePath(look.shape, 8)} transform="translate(15 6)" fill="currentColor" />
    </svg>
  );
}

/** The marker alone, where the name stands elsewhere. */
export function Marker({ transport }: { transport: string }) {
  return (
    <svg class="marker" width="10" height="10" viewBox="-5 -5 10 10" aria-hidden="true">
      <path d={shapePath(lookOf(transport).shape, 8)} fill="currentColor" />
    </svg>
  );
}

export function TransportName({ transport, label }: { transport: string; label?: string }) {
  return (
    <span class="transport">
      <Swatch transport={transport} />
      <span>{label ?? transport}</span>
    </span>
  );
}
