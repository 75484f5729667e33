"""Plays what a command of ffmpeg reads: when did the first frame come, and how long did pictures stand still?

ffmpeg -re gives frames at the pace of the video as long as it has them; each frame is looked at when it comes out.
Usage: play.py ffmpeg WORDS ..
"""

import json
import subprocess
import sys
import time

WIDTH, HEIGHT, RATE, SECONDS = 16, 16, 25, 20

began = time.monotonic()
words = sys.argv[1:] + ["-f", "rawvideo", "-pix_fmt", "gray", "-s", f"{WIDTH}x{HEIGHT}", "-"]
player = subprocess.Popen(words, stdout=subprocess.PIPE, bufsize=0)
frames, first, behind = 0, None, 0.0
while True:
    frame = b""
    while len(frame) < WIDTH * HEIGHT:
        piece = player.stdout.read(WIDTH * HEIGHT - len(frame))
        if not piece:
            break
        frame += piece
    if len(frame) < WIDTH * HEIGHT:
        break
    now = time.monotonic()
    if first is None:
        first = now
    # A viewer stops at a frame that is not there and goes on from it.
    behind = max(behind, now - first - frames / RATE)
    frames += 1
player.wait()
if frames < SECONDS * RATE - RATE:
    sys.exit(f"only {frames} frames came")
print(json.dumps({"startup_seconds": round(first - began, 3), "stalled_seconds": round(max(0.0, behind), 3), "frames": frames}))
