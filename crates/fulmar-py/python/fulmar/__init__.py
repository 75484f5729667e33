"""Reliable, encrypted byte streams over UDP that keep their speed where packets get lost.

This module waits in the calling thread, with the interpreter released; ``fulmar.aio`` is the same for asyncio, and
``fulmar.lab`` runs flows over paths in virtual time.

>>> import threading, fulmar
>>> alice, bob = fulmar.Identity(), fulmar.Identity()
>>> server = fulmar.listen("127.0.0.1:0", identity=bob, trust=[alice.public_key])
>>> def serve():
...     with server.accept() as connection, connection.accept() as stream:
...         stream.write(stream.read_all())
>>> thread = threading.Thread(target=serve)
>>> thread.start()
>>> with fulmar.connect(server.address, identity=alice, trust=[bob.public_key]) as connection:
...     with connection.open() as stream:
...         stream.write(b"hello")
...         stream.finish()
...         answer = stream.read_all()
>>> thread.join()
>>> server.close()
>>> answer
b'hello'
"""

from __future__ import annotations

import os as _os

from . import _fulmar
from ._fulmar import Closed, Error, Identity, StreamReset, StreamStopped, Untrusted, __version__, key_fingerprint

__all__ = [
    "Closed",
    "Connection",
    "Error",
    "Identity",
    "Listener",
    "Stream",
    "StreamReset",
    "StreamStopped",
    "Untrusted",
    "__version__",
    "connect",
    "key_fingerprint",
    "listen",
]

CHUNK = 1 << 16


def _endpoint(bind=None, *, identity=None, trust=None, home=None, serve=False, anybody=False, trust_new=False,
              profile=None, alpn=None, idle_timeout=None, keep_alive=None, lose_received=0.0):
    settings = dict(bind=bind, identity=identity, trust=None if trust is None else list(trust),
                    home=None if home is None else _os.fspath(home), serve=serve, anybody=anybody, trust_new=trust_new,
                    profile=profile, alpn=alpn, idle_timeout=idle_timeout, keep_alive=keep_alive,
                    lose_received=lose_received)
    return _fulmar.Endpoint(settings)


def connect(host, *, timeout=60.0, **settings):
    """A connection to ``host`` ("name:port").

    Who is trusted: ``trust``, lines of keys, with an ``identity`` where the server wants one; or ``home``, a folder with
    identity and known_hosts ("": the user's), where ``trust_new=True`` believes a server at first sight.
    More settings: ``bind``, ``profile`` ("auto"), ``alpn``, ``idle_timeout``, ``keep_alive`` (seconds), and
    ``lose_received``, a share of packets thrown away, to try a bad network.
    """
    endpoint = _endpoint(**settings)
    return Connection(endpoint.connect(host, timeout), endpoint)


def listen(address, **settings):
    """A server at ``address``: with ``identity`` and ``trust``, or ``anybody=True``; or with ``home``."""
    return Listener(_endpoint(address, serve=True, **settings))


class Listener:
    """A server. Iterating gives its clients."""

    def __init__(self, endpoint):
        self._endpoint = endpoint

    @property
    def address(self):
        return self._endpoint.address

    def accept(self, timeout=None):
        """The next client that was let in."""
        return Connection(self._endpoint.accept(timeout), self._endpoint)

    def __iter__(self):
        while True:
            try:
                yield self.accept()
            except Closed:
                return

    def close(self, code=0, reason=b"", timeout=5.0):
        """Closes all connections at once, and waits until their peers had the time to hear of it."""
        self._endpoint.close(code, reason)
        try:
            self._endpoint.wait_idle(timeout)
        except TimeoutError:
            pass

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


class Connection:
    """A connection. At the end of ``with`` everything is delivered; after an exception it is closed at once."""

    def __init__(self, core, endpoint):
        self._core, self._endpoint = core, endpoint

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

    def open(self, timeout=None):
        """A stream on which both ends send."""
        return Stream(self._core.open(True, timeout))

    def open_one_way(self, timeout=None):
        """A stream on which only this end sends."""
        return Stream(self._core.open(False, timeout))

    def accept(self, timeout=None):
        """The next stream that the peer has opened for both to send on."""
        return Stream(self._core.accept(True, timeout))

    def accept_one_way(self, timeout=None):
        """The next stream that the peer has opened to send on."""
        return Stream(self._core.accept(False, timeout))

    def send(self, datagram, timeout=None, *, kind=None, deadline=None):
        """Sends a datagram, which may get lost.

        ``kind`` is "once", "repaired" (ahead of loss; it may overtake others) or "in-order" (repaired, and it waits
        for those before it, as long as these may still come). After ``deadline`` seconds beyond what the path takes
        it is worth nothing and is dropped. With either of them a datagram that fits no packet is cut and put
        together again, up to ``any_datagram_bytes_max``."""
        self._core.send_datagram(datagram, (kind, deadline), timeout)

    def receive(self, timeout=None):
        """The next datagram."""
        return self._core.receive_datagram(timeout)

    def close(self, code=0, reason=b""):
        """Closes at once; what was not delivered may be lost."""
        self._core.close(code, reason)

    def shutdown(self, code=0, reason=b"", timeout=None):
        """Delivers everything written so far, then closes."""
        self._core.shutdown(code, reason, timeout)

    def __enter__(self):
        return self

    def __exit__(self, kind, *_):
        if kind is not None:
            self.close(1, b"")
        elif self.close_reason is None:
            try:
                self.shutdown()
            except Closed:
                # The peer was faster.
                pass


class Stream:
    """One end of a stream. ``with`` finishes it, or resets it after an exception. Iterating gives chunks."""

    def __init__(self, core):
        self._core, self._is_over = core, not core.can_send

    @property
    def id(self):
        return self._core.id

    def read(self, size=CHUNK, timeout=None):
        """Up to ``size`` bytes, as soon as there are some; ``b""`` at the end."""
        return self._core.read(size, timeout)

    def readinto(self, buffer, timeout=None):
        """Reads into a writable buffer what is there; how many bytes. 0 at the end."""
        return self._core.readinto(buffer, timeout)

    def read_exactly(self, size, timeout=None):
        """``size`` bytes; EOFError if the stream ends before."""
        parts, left = [], size
        while left:
            part = self._core.read(left, timeout)
            if not part:
                raise EOFError(f"the stream ended {left} bytes too early")
            parts.append(part)
            left -= len(part)
        return b"".join(parts)

    def read_all(self, limit=1 << 30, timeout=None):
        """Everything up to the end; ValueError, and the stream is stopped, if that is more than ``limit`` bytes."""
        parts, total = [], 0
        while part := self._core.read(1 << 20, timeout):
            parts.append(part)
            total += len(part)
            if total > limit:
                self.stop()
                raise ValueError(f"the stream is longer than {limit} bytes")
        return b"".join(parts)

    def write(self, data, timeout=None):
        """Writes all of ``data``, anything with a buffer; waits where there is no room."""
        self._core.write(data, timeout)

    def finish(self):
        """Ends the sending half."""
        self._is_over = True
        self._core.finish()

    def reset(self, code=0):
        """Gives the sending half up: the peer's reads fail."""
        self._is_over = True
        self._core.reset(code)

    def stop(self, code=0):
        """Wants no more: the peer's writes fail."""
        self._core.stop(code)

    def set_priority(self, priority):
        """Streams of higher priority are sent first."""
        self._core.set_priority(priority)

    def delivered(self, timeout=None):
        """Waits until the peer has everything that was written and finished."""
        self._core.delivered(timeout)

    def __iter__(self):
        while chunk := self.read():
            yield chunk

    def __enter__(self):
        return self

    def __exit__(self, kind, *_):
        if self._is_over:
            return
        try:
            self.finish() if kind is None else self.reset(1)
        except (Closed, StreamStopped, ValueError):
            # Over at the other end; what was read says how.
            pass
