// The bytes of a picture as they arrive, and the picture that can be made of them so far.

import { useEffect, useRef, useState } from "preact/hooks";

import { request } from "../../desk/client.ts";

const poll_ms = 150;

export interface Received {
  bytes: number;
  total: number | null;
}

/** Loads an image and waits for it; rejects what the browser cannot show. */
function loaded(url: string): Promise<HTMLImageElement> {
  return new Promise((resolve, reject) => {
    const image = new Image();
    image.onload = () => resolve(image);
    image.onerror = () => reject(new Error("not to be shown"));
    image.src = url;
  });
}

/** Collects what one transport has received of the picture. */
class Collector {
  private readonly parts: Uint8Array<ArrayBuffer>[] = [];
  private type = "";
  private whole: Promise<HTMLImageElement> | null = null;
  bytes = 0;
  total: number | null = null;

  constructor(
    private readonly run: string,
    private readonly flow: number,
    private readonly image: string,
  ) {}

  /** Asks for more; says whether there was any. */
  async more(): Promise<boolean> {
    const answer = await request(
      `runs/${encodeURIComponent(this.run)}/flows/${this.flow}/received?from=${this.bytes}`,
    );
    const total = Number(answer.headers.get("X-Total-Bytes"));
    if (total > 0) this.total = total;
    if (answer.status === 204) return false;
    const part = new Uint8Array(await answer.arrayBuffer());
    this.type = answer.headers.get("Content-Type") ?? this.type;
    if (part.length === 0) return false;
    this.parts.push(part);
    this.bytes += part.length;
    return true;
  }

  /** Draws what is there, from the top; what is missing stays empty, however the format spreads its bytes. */
  async draw(canvas: HTMLCanvasElement): Promise<void> {
    const url = URL.createObjectURL(new Blob(this.parts, { type: this.type }));
    const share = this.total === null ? 0 : this.bytes / this.total;
    try {
      paint(canvas, await loaded(url), share);
    } catch {
      this.whole ??= loaded(`/api/images/${encodeURIComponent(this.image)}`);
      await this.whole.then(
        (image) => paint(canvas, image, share),
        () => undefined,
      );
    } finally {
      URL.revokeObjectURL(url);
    }
  }
}

function paint(canvas: HTMLCanvasElement, image: HTMLImageElement, share: number): void {
  if (image.naturalWidth === 0) return;
  if (canvas.width !== image.naturalWidth) canvas.width = image.naturalWidth;
  if (canvas.height !== image.naturalHeight) canvas.height = image.naturalHeight;
  const context = canvas.getContext("2d");
  if (!context) return;
  const height = Math.round(canvas.height * share);
  context.clearRect(0, 0, canvas.width, canvas.height);
  if (height > 0) context.drawImage(image, 0, 0, canvas.width, height, 0, 0, canvas.width, height);
}

/** Follows one transport's picture on a canvas until `isOver`; what is there then is still fetched to its end. */
export function useReceived(run: string, flow: number, image: string, isOver: boolean) {
  const canvas = useRef<HTMLCanvasElement>(null);
  const [received, setReceived] = useState<Received>({ bytes: 0, total: null });
  const over = useRef(isOver);
  over.current = isOver;
  useEffect(() => {
    const collector = new Collector(run, flow, image);
    let isLeft = false;
    const follow = async (): Promise<void> => {
      while (!isLeft) {
        const wasOver = over.current;
        const isMore = await collector.more().catch(() => false);
        if (isMore && canvas.current) await collector.draw(canvas.current);
        if (isMore) setReceived({ bytes: collector.bytes, total: collector.total });
        if (wasOver && !isMore) return;
        await new Promise((resolve) => setTimeout(resolve, poll_ms));
      }
    };
    void follow();
    return () => {
      isLeft = true;
    };
  }, [run, flow, image]);
  return { canvas, received };
}
