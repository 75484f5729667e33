// A picture for the mock: a PNG written by hand, because the program that draws the real one is not there.

import { deflateSync } from "node:zlib";

/** PNG's checksum (RFC 2083, 15). @param {Buffer} data */
function crc32(data) {
  let sum = 0xffffffff;
  for (const byte of data) {
    sum ^= byte;
    for (let bit = 0; bit < 8; bit += 1) sum = sum & 1 ? (sum >>> 1) ^ 0xedb88320 : sum >>> 1;
  }
  return (sum ^ 0xffffffff) >>> 0;
}

/** @param {string} name @param {Buffer} body */
function chunk(name, body) {
  const data = Buffer.concat([Buffer.from(name, "latin1"), body]);
  const head = Buffer.alloc(4);
  head.writeUInt32BE(body.length);
  const tail = Buffer.alloc(4);
  tail.writeUInt32BE(crc32(data));
  return Buffer.concat([head, data, tail]);
}

/** @param {number} width @param {number} height */
export function drawn(width, height) {
  const rows = Buffer.alloc(height * (1 + 3 * width));
  let at = 0;
  let noise = 1;
  for (let y = 0; y < height; y += 1) {
    rows[at++] = 0;
    for (let x = 0; x < width; x += 1) {
      noise = (noise * 1103515245 + 12345) & 0x7fffffff;
      const wave = Math.sin(x / 37) * Math.cos(y / 23) + Math.sin((x + y) / 90);
      rows[at++] = 110 + 60 * wave + (noise >> 26);
      rows[at++] = 90 + (110 * y) / height + (noise >> 27);
      rows[at++] = 190 - (120 * x) / width + (noise >> 28);
    }
  }
  const header = Buffer.alloc(13);
  header.writeUInt32BE(width, 0);
  header.writeUInt32BE(height, 4);
  header.set([8, 2, 0, 0, 0], 8);
  const signature = Buffer.from([0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a]);
  return Buffer.concat([
    signature,
    chunk("IHDR", header),
    chunk("IDAT", deflateSync(rows)),
    chunk("IEND", Buffer.alloc(0)),
  ]);
}
