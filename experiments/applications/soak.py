"""Many proxied connections at once that send and get back what they have sent, for a long time; and what that costs.

Usage: soak.py echo PORT
       soak.py run HOST PORT PROXY_HOST:PORT CONNECTIONS SECONDS FOLDER

Memory, descriptors and processor time are those of the `fulmar` processes whose $FULMAR_HOME is in FOLDER.
"""

import asyncio
import json
import os
import socket
import struct
import sys
import time

PIECE = 1000
PAUSE = 0.5
# What is still warming up does not count.
SETTLE = 0.2


async def echo(port):
    async def serve(reader, writer):
        try:
            while piece := await reader.read(65536):
                writer.write(piece)
                await writer.drain()
        finally:
            writer.close()

    server = await asyncio.start_server(serve, "0.0.0.0", port, backlog=2000)
    await server.serve_forever()


async def connect(proxy, host, port):
    """A connection through SOCKS 5."""
    reader, writer = await asyncio.open_connection(*proxy)
    writer.write(b"\x05\x01\x00")
    await reader.readexactly(2)
    writer.write(b"\x05\x01\x00\x01" + socket.inet_aton(host) + struct.pack("!H", port))
    reply = await reader.readexactly(10)
    if reply[1] != 0:
        raise OSError(f"SOCKS answers {reply[1]}")
    return reader, writer


async def one(number, proxy, target, until, count):
    reader, writer = await connect(proxy, *target)
    count["open"] += 1
    sent = 0
    await asyncio.sleep(number % 100 * PAUSE / 100)
    while time.monotonic() < until:
        piece = struct.pack("!II", number, sent) * (PIECE // 8)
        writer.write(piece)
        if await reader.readexactly(len(piece)) != piece:
            raise ValueError("what came back is not what was sent")
        sent += 1
        count["bytes"] += 2 * len(piece)
        await asyncio.sleep(PAUSE)
    writer.close()


def processes(folder):
    """Process numbers of fulmar's commands, by what they are."""
    found = {}
    for name in os.listdir("/proc"):
        try:
            words = open(f"/proc/{name}/cmdline", "rb").read().split(b"\0") if name.isdigit() else []
            if os.path.basename(words[0] if words else b"") == b"fulmar":
                if folder.encode() in open(f"/proc/{name}/environ", "rb").read():
                    found[words[1].decode()] = name
        except OSError:
            continue
    return found


def look(process):
    """Memory in MB, descriptors, processor time in seconds."""
    status = open(f"/proc/{process}/status").read()
    memory = int(status.split("VmRSS:")[1].split()[0]) / 1000
    fields = open(f"/proc/{process}/stat").read().rsplit(")", 1)[1].split()
    ticks = int(fields[11]) + int(fields[12])
    return memory, len(os.listdir(f"/proc/{process}/fd")), ticks / os.sysconf("SC_CLK_TCK")


async def watch(folder, seconds, count, samples):
    await asyncio.sleep(seconds * SETTLE)
    names = processes(folder)
    while True:
        samples.append((count["bytes"], {name: look(process) for name, process in names.items()}))
        await asyncio.sleep(max(1, seconds / 60))


async def run(host, port, proxy, connections, seconds, folder):
    address = (proxy.rsplit(":", 1)[0], int(proxy.rsplit(":", 1)[1]))
    count, samples = {"open": 0, "bytes": 0}, []
    until = time.monotonic() + seconds
    watching = asyncio.create_task(watch(folder, seconds, count, samples))
    ends = await asyncio.gather(
        *(one(number, address, (host, port), until, count) for number in range(connections)), return_exceptions=True)
    watching.cancel()
    broken = [end for end in ends if end is not None]
    result = {"connections": count["open"], "broken": len(broken), "gigabytes": round(count["bytes"] / 1e9, 3)}
    if broken:
        print(f"for example: {broken[0]!r}", file=sys.stderr)
    samples = samples[:-1]
    moved = (samples[-1][0] - samples[0][0]) / 1e9
    for name in samples[0][1]:
        series = [sample[name] for _, sample in samples]
        half = len(series) // 2
        result[f"{name}_mb"] = round(max(memory for memory, _, _ in series), 1)
        # Of the second half over the first: what leaks grows.
        late, early = max(m for m, _, _ in series[half:]), max(m for m, _, _ in series[:half])
        result[f"{name}_growth_mb"] = round(late - early, 1)
        result[f"{name}_descriptors"] = max(d for _, d, _ in series)
        result[f"{name}_descriptor_growth"] = max(d for _, d, _ in series[half:]) - max(d for _, d, _ in series[:half])
        result[f"{name}_cpu_s_per_gb"] = round((series[-1][2] - series[0][2]) / moved, 1)
    result["growth_mb"] = max(result[f"{name}_growth_mb"] for name in samples[0][1])
    result["descriptor_growth"] = max(result[f"{name}_descriptor_growth"] for name in samples[0][1])
    print(json.dumps(result))


if sys.argv[1] == "echo":
    asyncio.run(echo(int(sys.argv[2])))
else:
    _, _, host, port, proxy, connections, seconds, folder = sys.argv
    asyncio.run(run(host, int(port), proxy, int(connections), float(seconds), folder))
