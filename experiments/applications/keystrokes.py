"""Types 200 keys into a command that echoes them; prints how long the echoes took. Usage: keystrokes.py COMMAND .."""

import json
import os
import random
import select
import subprocess
import sys
import time

KEYS = 200

child = subprocess.Popen(sys.argv[1:], stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0)
out = child.stdout.fileno()


def wait_for(text, times, seconds):
    """Reads until `text` has come so often; false if it does not in time."""
    got, until = b"", time.monotonic() + seconds
    while got.count(text) < times:
        left = until - time.monotonic()
        if left <= 0 or not select.select([out], [], [], left)[0]:
            return False
        piece = os.read(out, 4096)
        if not piece:
            return False
        got += piece
    return True


child.stdin.write(b"begin\n")
# The terminal's echo, and what the command says.
if not wait_for(b"begin", 2, 60):
    sys.exit("no terminal after 60 s")
time.sleep(1)
while select.select([out], [], [], 0.2)[0]:
    if not os.read(out, 4096):
        sys.exit("the command ended")
draw = random.Random(1)
sent, delays, lost = {}, [], 0
next_key, key = time.monotonic(), 0
# Keys are typed on time, whether or not the echoes before have come.
end = None
while len(delays) < KEYS:
    now = time.monotonic()
    if key < KEYS and now >= next_key:
        child.stdin.write(bytes([97 + key % 26]))
        sent[key] = time.monotonic()
        key += 1
        next_key += draw.uniform(0.1, 0.25)
        continue
    if key == KEYS and end is None:
        end = now + 30
    if end is not None and now > end:
        break
    wait = max(0.0, next_key - now) if key < KEYS else 1.0
    if select.select([out], [], [], wait)[0]:
        piece = os.read(out, 4096)
        if not piece:
            break
        for byte in piece:
            if 97 <= byte <= 122 and len(delays) in sent:
                if byte != 97 + len(delays) % 26:
                    sys.exit("an echo is wrong")
                delays.append((time.monotonic() - sent[len(delays)]) * 1000)
child.kill()
if not delays:
    sys.exit("no echo came")
complete = 1 if len(delays) == KEYS else 0
# What never came is as late as the end.
delays += [30000.0] * (KEYS - len(delays))
delays.sort()
print(json.dumps({"p50_ms": round(delays[99], 1), "p99_ms": round(delays[197], 1), "max_ms": round(delays[-1], 1),
                  "complete": complete}))
