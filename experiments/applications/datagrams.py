"""Datagrams that are answered with themselves, directly or through a SOCKS 5 proxy's UDP ASSOCIATE.

Usage: datagrams.py answer PORT
       datagrams.py ask HOST PORT COUNT PER_SECOND BYTES [PROXY_HOST:PORT]
"""

import json
import select
import socket
import struct
import sys
import time


def answer(port):
    server = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    server.bind(("0.0.0.0", port))
    while True:
        data, who = server.recvfrom(65535)
        server.sendto(data, who)


def associate(proxy):
    """The proxy's relay; the connection that keeps it."""
    host, port = proxy.rsplit(":", 1)
    control = socket.create_connection((host, int(port)), 10)
    control.sendall(b"\x05\x01\x00")
    if control.recv(2) != b"\x05\x00":
        sys.exit("the proxy wants a password")
    control.sendall(b"\x05\x03\x00\x01\0\0\0\0\0\0")
    reply = control.recv(10)
    if len(reply) < 10 or reply[1] != 0:
        sys.exit("the proxy refuses UDP ASSOCIATE")
    return (socket.inet_ntoa(reply[4:8]), struct.unpack("!H", reply[8:10])[0]), control


def ask(host, port, count, per_second, length, proxy=""):
    header, to, control = b"", (host, port), None
    if proxy:
        to, control = associate(proxy)
        header = b"\0\0\0\x01" + socket.inet_aton(host) + struct.pack("!H", port)
    asking = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    began, sent, delays = time.monotonic(), {}, {}
    end = began + count / per_second + 5
    while time.monotonic() < end and len(delays) < count:
        now = time.monotonic()
        due = began + len(sent) / per_second
        if len(sent) < count and now >= due:
            number = len(sent)
            sent[number] = time.monotonic()
            asking.sendto(header + struct.pack("!I", number) + bytes(length - 4), to)
            continue
        wait = due - now if len(sent) < count else end - now
        if select.select([asking], [], [], max(0.0, min(wait, 0.5)))[0]:
            data = asking.recv(65535)[len(header):]
            number = struct.unpack("!I", data[:4])[0]
            if len(data) != length or number not in sent:
                sys.exit("an answer is wrong")
            delays.setdefault(number, (time.monotonic() - sent[number]) * 1000)
    if control:
        control.close()
    times = sorted(delays.values())
    result = {"answered_percent": round(100 * len(times) / count, 1)}
    if times:
        result["p50_ms"] = round(times[len(times) // 2], 1)
        result["p99_ms"] = round(times[min(len(times) - 1, len(times) * 99 // 100)], 1)
    print(json.dumps(result))


if sys.argv[1] == "answer":
    answer(int(sys.argv[2]))
else:
    ask(sys.argv[2], int(sys.argv[3]), int(sys.argv[4]), float(sys.argv[5]), int(sys.argv[6]), *sys.argv[7:8])
