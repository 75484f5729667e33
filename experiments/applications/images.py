"""Makes a page of 100 images that says how long it took. Usage: images.py FOLDER"""

import os
import random
import struct
import sys
import zlib


def chunk(kind, data):
    return struct.pack("!I", len(data)) + kind + data + struct.pack("!I", zlib.crc32(kind + data))


def png(seed, side=64):
    draw = random.Random(seed)
    rows = b"".join(b"\0" + draw.randbytes(side * 3) for _ in range(side))
    head = struct.pack("!IIBBBBB", side, side, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")


folder = sys.argv[1]
os.makedirs(folder, exist_ok=True)
for number in range(100):
    with open(f"{folder}/{number}.png", "wb") as file:
        file.write(png(number, 320 if number == 99 else 64))
images = "".join(f'<img src="{number}.png">' for number in range(100))
with open(f"{folder}/index.html", "w") as file:
    file.write(f"""<!doctype html><title>100 images</title><body>{images}
<script>
let lcp = 0;
new PerformanceObserver(list => list.getEntries().forEach(entry => lcp = entry.startTime))
  .observe({{ type: "largest-contentful-paint", buffered: true }});
addEventListener("load", () => setTimeout(() => {{
  const broken = [...document.images].filter(image => !image.naturalWidth).length;
  const load = performance.getEntriesByType("navigation")[0].loadEventStart;
  if (!broken) console.log("RESULT " + JSON.stringify({{ lcp_ms: Math.round(lcp || load), load_ms: Math.round(load) }}));
}}, 100));
</script>""")
