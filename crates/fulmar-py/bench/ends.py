"""Two processes that send over loopback, for scripts/bench-bindings: ends.py bulk|messages|standing sync|aio|aioquic|iroh SECONDS.

This process is the one that is measured: it reads in pieces of 64 KiB, receives messages, or writes to a peer that reads
nothing. The other is started from here. One line of JSON is what came of it.
"""

import asyncio
import contextlib
import datetime
import json
import os
import resource
import subprocess
import sys
import tempfile
import time

READ, WRITE, MESSAGE = 1 << 16, 1 << 18, bytes(100)
# What a writer is stopped at that nothing else stops.
STANDING_MOST = 1 << 29


def used(who):
    spent = resource.getrusage(who)
    return spent.ru_utime + spent.ru_stime


def resident_mb():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * resource.getpagesize() / 1e6


class Count:
    """Bytes or messages, and the seconds from the first to the last."""

    def __init__(self):
        self.total, self.first, self.last = 0, None, None

    def add(self, some):
        self.last = time.monotonic()
        if self.first is None:
            self.first = self.last
        self.total += some

    @property
    def rate(self):
        return self.total / max(self.last - self.first, 1e-9)


class Standing:
    """Memory of a writer whose peer reads nothing: when its windows are full, and at the end."""

    def __init__(self, seconds):
        self.began, self.seconds, self.written, self.early = time.monotonic(), seconds, 0, None

    def goes_on(self):
        """Whether to write on; seconds that are left."""
        past = time.monotonic() - self.began
        if self.early is None and past >= self.seconds / 4:
            self.early = resident_mb()
        return max(self.seconds - past, 0.0) if self.written < STANDING_MOST else 0.0

    def figures(self):
        early = resident_mb() if self.early is None else self.early
        return {"written_mb": self.written / 1e6, "grown_mb": resident_mb() - early, "resident_mb": resident_mb()}


# Waiting in the calling thread.

def sync_measures(what, seconds, start):
    import fulmar
    alice, bob = fulmar.Identity(), fulmar.Identity()
    count = Count()
    with fulmar.listen("127.0.0.1:0", identity=bob, trust=[alice.public_key]) as server:
        start(server.address, alice.to_pem(), bob.public_key)
        connection = server.accept(60)
        if what == "bulk":
            stream = connection.accept_one_way(60)
            while chunk := stream.read(READ):
                count.add(len(chunk))
            # The peer closes, when it knows that all has come.
            with contextlib.suppress(fulmar.Closed):
                connection.receive()
            return count
        if what == "messages":
            with contextlib.suppress(fulmar.Closed):
                while True:
                    connection.receive()
                    count.add(1)
            return count
        stream, standing = connection.open_one_way(), Standing(seconds)
        while left := standing.goes_on():
            with contextlib.suppress(TimeoutError):
                stream.write(bytes(WRITE), timeout=min(left, seconds / 8))
                standing.written += WRITE
        return standing


def sync_peer(what, seconds, address, key, server_key):
    import fulmar
    identity = fulmar.Identity.from_pem(key)
    connection = fulmar.connect(address, identity=identity, trust=[server_key])
    until = time.monotonic() + seconds
    if what == "bulk":
        stream, piece = connection.open_one_way(), bytes(WRITE)
        while time.monotonic() < until:
            stream.write(piece)
        stream.finish()
        stream.delivered()
    elif what == "messages":
        while time.monotonic() < until:
            for _ in range(64):
                connection.send(MESSAGE)
    else:
        time.sleep(seconds + 1)
    connection.close()


# asyncio.

async def aio_measures(what, seconds, start):
    import fulmar
    import fulmar.aio
    alice, bob = fulmar.Identity(), fulmar.Identity()
    count = Count()
    async with fulmar.aio.listen("127.0.0.1:0", identity=bob, trust=[alice.public_key]) as server:
        start(server.address, alice.to_pem(), bob.public_key)
        connection = await server.accept()
        if what == "bulk":
            stream = await connection.accept_one_way()
            while chunk := await stream.read(READ):
                count.add(len(chunk))
            # The peer closes, when it knows that all has come.
            with contextlib.suppress(fulmar.Closed):
                await connection.receive()
            return count
        if what == "messages":
            with contextlib.suppress(fulmar.Closed):
                while True:
                    await connection.receive()
                    count.add(1)
            return count
        stream, standing = await connection.open_one_way(), Standing(seconds)
        while left := standing.goes_on():
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(min(left, seconds / 8)):
                    await stream.write(bytes(WRITE))
                    standing.written += WRITE
        return standing


# aioquic, beside it.

def certificate(folder):
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "localhost")])
    now = datetime.datetime.now(datetime.timezone.utc)
    made = x509.CertificateBuilder().subject_name(name).issuer_name(name).public_key(key.public_key())
    made = made.serial_number(1).not_valid_before(now).not_valid_after(now + datetime.timedelta(days=1))
    paths = os.path.join(folder, "certificate.pem"), os.path.join(folder, "key.pem")
    with open(paths[0], "wb") as file:
        file.write(made.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM))
    with open(paths[1], "wb") as file:
        file.write(key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8,
                                     serialization.NoEncryption()))
    return paths


async def aioquic_measures(what, seconds, start):
    from aioquic.asyncio import serve
    from aioquic.quic.configuration import QuicConfiguration
    configuration = QuicConfiguration(is_client=False, alpn_protocols=["bench"])
    with tempfile.TemporaryDirectory() as folder:
        configuration.load_cert_chain(*certificate(folder))
    done = asyncio.get_running_loop().create_future()

    async def measure(reader, writer):
        if what == "bulk":
            count = Count()
            while chunk := await reader.read(READ):
                count.add(len(chunk))
            return done.set_result(count)
        await reader.read(1)
        standing = Standing(seconds)
        while standing.goes_on():
            writer.write(bytes(WRITE))
            standing.written += WRITE
            await writer.drain()
            await asyncio.sleep(0.001)
        # What nothing has stopped stands.
        while standing.early is None:
            await asyncio.sleep(0.1)
            standing.goes_on()
        done.set_result(standing)

    # The handler of a stream is called, not awaited.
    tasks = []
    server = await serve("127.0.0.1", 0, configuration=configuration,
                         stream_handler=lambda *ends: tasks.append(asyncio.ensure_future(measure(*ends))))
    host, port = server._transport.get_extra_info("sockname")[:2]
    start(f"{host}:{port}", "", "")
    result = await done
    server.close()
    return result


async def aioquic_peer(what, seconds, address):
    import ssl
    from aioquic.asyncio import connect
    from aioquic.quic.configuration import QuicConfiguration
    configuration = QuicConfiguration(is_client=True, alpn_protocols=["bench"], verify_mode=ssl.CERT_NONE)
    host, port = address.rsplit(":", 1)
    async with connect(host, int(port), configuration=configuration) as client:
        _, writer = await client.create_stream()
        if what == "bulk":
            # Nothing holds it back: so much as takes it about that time.
            for _ in range(max(1, int(seconds * 1e7 / WRITE))):
                writer.write(bytes(WRITE))
            writer.write_eof()
            # The server closes.
            await client.wait_closed()
        else:
            writer.write(b"x")
            await asyncio.sleep(seconds + 1)


# iroh, without its relays.

async def iroh_endpoint(**options):
    import iroh
    iroh.iroh_ffi.uniffi_set_event_loop(asyncio.get_running_loop())
    return await iroh.Endpoint.bind(iroh.EndpointOptions(preset=iroh.preset_minimal(), bind_addr="127.0.0.1:0",
                                                         relay_mode=iroh.RelayMode.disabled(), **options))


async def iroh_measures(what, seconds, start):
    server = await iroh_endpoint(alpns=[b"bench"])
    start(server.bound_sockets()[0], "", str(server.id()))
    connection = await (await (await server.accept_next()).accept()).connect()
    result = Count() if what == "bulk" else Standing(seconds)
    if what == "bulk":
        stream = await connection.accept_uni()
        while chunk := await stream.read(READ):
            result.add(len(chunk))
        connection.close(0, b"")
    else:
        stream = await connection.open_uni()
        while left := result.goes_on():
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(min(left, seconds / 8)):
                    await stream.write_all(bytes(WRITE))
                    result.written += WRITE
    await server.close()
    return result


async def iroh_peer(what, seconds, address, server_id):
    import iroh
    client = await iroh_endpoint()
    address = iroh.EndpointAddr(iroh.EndpointId.from_string(server_id), None, [address])
    connection = await client.connect(address, b"bench")
    until = time.monotonic() + seconds
    if what == "bulk":
        stream, piece = await connection.open_uni(), bytes(WRITE)
        while time.monotonic() < until:
            await stream.write_all(piece)
        await stream.finish()
        await connection.closed()
    else:
        await asyncio.sleep(seconds + 1)
    await client.close()


def main():
    if sys.argv[1] == "peer":
        what, how, seconds, address, key, server_key = json.loads(sys.stdin.read())
        if how == "aioquic":
            asyncio.run(aioquic_peer(what, seconds, address))
        elif how == "iroh":
            asyncio.run(iroh_peer(what, seconds, address, server_key))
        else:
            sync_peer(what, seconds, address, key, server_key)
        return
    what, how, seconds = sys.argv[1], sys.argv[2], float(sys.argv[3])
    peers = []

    def start(*words):
        peer = subprocess.Popen([sys.executable, __file__, "peer"], stdin=subprocess.PIPE)
        peer.stdin.write(json.dumps([what, how, seconds, *words]).encode())
        peer.stdin.close()
        peers.append(peer)

    if how == "sync":
        result = sync_measures(what, seconds, start)
    else:
        result = asyncio.run({"aio": aio_measures, "aioquic": aioquic_measures, "iroh": iroh_measures}[how](what, seconds, start))
    if what == "standing":
        print(json.dumps(result.figures()))
        peers[0].terminate()
        peers[0].wait()
        return
    if peers[0].wait():
        sys.exit("ends.py: the peer failed")
    spent = used(resource.RUSAGE_SELF) + used(resource.RUSAGE_CHILDREN)
    if what == "bulk":
        print(json.dumps({"goodput_gbps": result.rate * 8e-9, "cpu_seconds_per_gbit": spent / (result.total * 8e-9)}))
    else:
        print(json.dumps({"messages_per_s": result.rate, "cpu_us_per_message": spent * 1e6 / result.total}))


main()
