"""The same for asyncio. What is there is given without a turn of the loop; whatever waits shares one wake-up.

>>> import asyncio, fulmar, fulmar.aio
>>> alice, bob = fulmar.Identity(), fulmar.Identity()
>>> async def serve(server):
...     async with await server.accept() as connection:
...         async with await connection.accept() as stream:
...             async for chunk in stream:
...                 await stream.write(chunk)
>>> async def main():
...     server = fulmar.aio.listen("127.0.0.1:0", identity=bob, trust=[alice.public_key])
...     serving = asyncio.create_task(serve(server))
...     connecting = fulmar.aio.connect(server.address, identity=alice, trust=[bob.public_key])
...     async with await connecting as connection:
...         async with await connection.open() as stream:
...             await stream.write(b"hello")
...             stream.finish()
...             answer = await stream.read_all()
...     await serving
...     return answer
>>> asyncio.run(main())
b'hello'

Cancelling a call loses nothing: what it waited for is the next call's, and a read that was given up has read nothing. A
``write`` of much data may have written a part.
"""

from __future__ import annotations

import asyncio
import weakref

from . import CHUNK, Closed, StreamStopped, _endpoint, _fulmar

__all__ = ["Connection", "Listener", "Stream", "connect", "listen"]

_reactors: weakref.WeakKeyDictionary = weakref.WeakKeyDictionary()


class _Reactor:
    """Wakes the tasks of one loop, many at a time."""

    def __init__(self, loop):
        self.core, self.waiting, self.token = _fulmar.Reactor(), {}, 0
        loop.add_reader(self.core.fileno(), self.wake)

    def wake(self):
        for token in self.core.drain():
            future = self.waiting.pop(token, None)
            if future is not None and not future.done():
                future.set_result(None)

    async def until(self, poll, *args):
        """Asks until there is something."""
        while True:
            self.token = token = self.token + 1
            result = poll(*args, self.core, token)
            if result is not None:
                return result
            self.waiting[token] = future = asyncio.get_running_loop().create_future()
            try:
                await future
            finally:
                self.waiting.pop(token, None)


def _reactor():
    loop = asyncio.get_running_loop()
    reactor = _reactors.get(loop)
    if reactor is None:
        reactor = _reactors[loop] = _Reactor(loop)
    return reactor


class _Turns:
    """One call at a time of a kind; others wait for their turn."""

    def __init__(self):
        self._locks = {}

    async def until(self, poll, *args):
        kind = poll.__name__, args[:1] if args and isinstance(args[0], bool) else ()
        lock = self._locks.get(kind)
        if lock is None:
            lock = self._locks[kind] = asyncio.Lock()
        async with lock:
            return await _reactor().until(poll, *args)


async def connect(host, *, timeout=60.0, **settings):
    """As ``fulmar.connect``."""
    endpoint = _endpoint(**settings)
    async with asyncio.timeout(timeout):
        return Connection(await _reactor().until(endpoint.poll_connect, host), endpoint)


def listen(address, **settings):
    """As ``fulmar.listen``."""
    return Listener(_endpoint(address, serve=True, **settings))


class Listener:
    """A server. ``async for`` gives its clients."""

    def __init__(self, endpoint):
        self._endpoint, self._turns = endpoint, _Turns()

    @property
    def address(self):
        return self._endpoint.address

    async def accept(self):
        return Connection(await self._turns.until(self._endpoint.poll_accept), self._endpoint)

    async def __aiter__(self):
        while True:
            try:
                yield await self.accept()
            except Closed:
                return

    def close(self, code=0, reason=b""):
        """Closes all connections at once."""
        self._endpoint.close(code, reason)

    async def __aenter__(self):
        return self

    async def __aexit__(self, *_):
        self.close()


class Connection:
    """A connection. At the end of ``async with`` everything is delivered; after an exception it is closed at once."""

    def __init__(self, core, endpoint):
        self._core, self._endpoint, self._turns = core, endpoint, _Turns()

    @property
    def remote(self):
        return self._core.remote

    @property
    def peer_key(self):
        return self._core.peer_key

    @property
    def close_reason(self):
        return self._core.close_reason

    @property
    def datagram_bytes_max(self):
        return self._core.datagram_bytes_max

    @property
    def any_datagram_bytes_max(self):
        return self._core.any_datagram_bytes_max

    def stats(self):
        return self._core.stats()

    async def open(self):
        return Stream(await self._turns.until(self._core.poll_open, True))

    async def open_one_way(self):
        return Stream(await self._turns.until(self._core.poll_open, False))

    async def accept(self):
        return Stream(await self._turns.until(self._core.poll_accept, True))

    async def accept_one_way(self):
        return Stream(await self._turns.until(self._core.poll_accept, False))

    async def send(self, datagram, *, kind=None, deadline=None):
        """As ``fulmar.Connection.send``; waits while the queue is full."""
        await self._turns.until(self._core.poll_send_datagram, datagram, (kind, deadline))

    async def receive(self):
        """The next datagram."""
        return await self._turns.until(self._core.poll_receive_datagram)

    def close(self, code=0, reason=b""):
        self._core.close(code, reason)

    async def shutdown(self, code=0, reason=b""):
        await self._turns.until(self._core.poll_shutdown, code, reason)

    async def __aenter__(self):
        return self

    async def __aexit__(self, kind, *_):
        if kind is not None:
            self.close(1, b"")
        elif self.close_reason is None:
            try:
                await self.shutdown()
            except Closed:
                # The peer was faster.
                pass


class Stream:
    """One end of a stream. ``async with`` finishes it, or resets it after an exception. ``async for`` gives chunks."""

    def __init__(self, core):
        self._core, self._turns, self._is_over = core, _Turns(), not core.can_send

    @property
    def id(self):
        return self._core.id

    async def read(self, size=CHUNK):
        """Up to ``size`` bytes, as soon as there are some; ``b""`` at the end."""
        return await self._turns.until(self._core.poll_read, size)

    async def readinto(self, buffer):
        """Reads into a writable buffer what is there; how many bytes. 0 at the end."""
        return await self._turns.until(self._core.poll_readinto, buffer)

    async def read_exactly(self, size):
        """``size`` bytes; asyncio.IncompleteReadError if the stream ends before."""
        data = bytearray()
        while len(data) < size:
            part = await self.read(size - len(data))
            if not part:
                raise asyncio.IncompleteReadError(bytes(data), size)
            data += part
        return bytes(data)

    async def read_all(self, limit=1 << 30):
        """Everything up to the end; ValueError, and the stream is stopped, if that is more than ``limit`` bytes."""
        data = bytearray()
        while part := await self.read(1 << 20):
            data += part
            if len(data) > limit:
                self.stop()
                raise ValueError(f"the stream is longer than {limit} bytes")
        return bytes(data)

    async def write(self, data):
        """Writes all of ``data``; waits only where there is no room."""
        if not isinstance(data, bytes):
            data = bytes(data)
        written = 0
        while written < len(data):
            written += await self._turns.until(self._core.poll_write, data, written)

    def finish(self):
        self._is_over = True
        self._core.finish()

    def reset(self, code=0):
        self._is_over = True
        self._core.reset(code)

    def stop(self, code=0):
        self._core.stop(code)

    def set_priority(self, priority):
        self._core.set_priority(priority)

    async def delivered(self):
        """Waits until the peer has everything that was written and finished."""
        await self._turns.until(self._core.poll_delivered)

    async def __aiter__(self):
        while chunk := await self.read():
            yield chunk

    async def __aenter__(self):
        return self

    async def __aexit__(self, kind, *_):
        if self._is_over:
            return
        try:
            self.finish() if kind is None else self.reset(1)
        except (Closed, StreamStopped, ValueError):
            # Over at the other end; what was read says how.
            pass
