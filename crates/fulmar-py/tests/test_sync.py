"""What waits in the calling thread."""

import contextlib
import os
import threading
import time

import fulmar
import pytest


def echo(connection):
    with connection.accept(60) as stream:
        for chunk in stream:
            stream.write(chunk)


def test_megabytes_come_back_whole_on_a_bad_path(pair, serving):
    data = os.urandom(3_000_000)
    with pair.connect(serving(echo), lose_received=0.05) as connection:
        with connection.open() as stream:
            writing = threading.Thread(target=lambda: (stream.write(data), stream.finish()))
            writing.start()
            assert stream.read_all(timeout=60) == data
            writing.join()
        assert connection.stats()["received_bytes"] > len(data)
        assert connection.peer_key == pair.bob.public_key


def test_readinto_fills_a_callers_buffer(pair, serving):
    with pair.connect(serving(echo)) as connection, connection.open() as stream:
        stream.write(memoryview(b"hello"))
        stream.finish()
        buffer, got = bytearray(8), 0
        while count := stream.readinto(memoryview(buffer)[got:], timeout=60):
            got += count
        assert bytes(buffer[:got]) == b"hello"
        with pytest.raises(ValueError):
            stream.readinto(b"cannot be written to")


def test_timeouts_lose_nothing(pair, serving):
    goes_on = threading.Event()

    def late(connection):
        with connection.accept(60) as stream:
            goes_on.wait(60)
            stream.write(b"late")

    with pair.connect(serving(late)) as connection, connection.open() as stream:
        stream.write(b"?")
        with pytest.raises(TimeoutError):
            stream.read(timeout=0.1)
        goes_on.set()
        assert stream.read_exactly(4, timeout=60) == b"late"


def test_a_write_that_nobody_reads_says_how_far_it_came(pair, serving):
    goes_on = threading.Event()
    with pair.connect(serving(lambda connection: goes_on.wait(60))) as connection:
        stream = connection.open()
        with pytest.raises(TimeoutError) as raised:
            stream.write(bytes(200_000_000), timeout=2)
        goes_on.set()
        assert 0 < raised.value.args[1] < 200_000_000
        connection.close()


def test_the_interpreter_is_free_while_a_call_waits(pair, serving):
    goes_on, counted = threading.Event(), 0
    with pair.connect(serving(lambda connection: goes_on.wait(60))) as connection:
        waiting = threading.Thread(target=lambda: pytest.raises(TimeoutError, connection.accept, 1.0))
        waiting.start()
        while waiting.is_alive():
            counted += 1
            time.sleep(0.001)
        goes_on.set()
    assert counted > 20


def test_datagrams_go_both_ways(pair, serving):
    def answer(connection):
        connection.send(connection.receive(60) + b"!")
        connection.accept_one_way(60)

    with pair.connect(serving(answer)) as connection:
        connection.send(b"hey")
        assert connection.receive(60) == b"hey!"
        with pytest.raises(ValueError):
            connection.send(bytes(connection.datagram_bytes_max + 1))
        connection.open_one_way().finish()


def test_datagrams_are_repaired_and_worth_nothing_later(pair, serving):
    """One in five is lost on the way. A datagram that fits no packet comes whole."""

    def talk(connection):
        # The client leaves when it has seen enough.
        with contextlib.suppress(fulmar.Closed):
            for number in range(200):
                connection.send(number.to_bytes(2, "big") * 60, kind="in-order", deadline=0.5)
                time.sleep(0.01)
            connection.accept_one_way(60)

    with pair.connect(serving(talk), lose_received=0.2) as connection:
        seen = [connection.receive(60) for _ in range(180)]
        assert seen == sorted(seen), "in order"
        assert connection.stats()["datagrams_repaired"] > 10
        connection.open_one_way().finish()

    def echo(connection):
        connection.send(connection.receive(60), kind="repaired")
        connection.accept_one_way(60)

    with pair.connect(serving(echo)) as connection:
        long = bytes(range(256)) * 40
        assert connection.datagram_bytes_max < len(long) <= connection.any_datagram_bytes_max
        connection.send(long, kind="repaired")
        assert connection.receive(60) == long
        for wrong in [{"kind": "twice"}, {"deadline": 0}, {"deadline": -1.0}, {"deadline": float("nan")}]:
            with pytest.raises(ValueError):
                connection.send(b"?", **wrong)
        connection.open_one_way().finish()


def test_a_stream_that_fails_half_way_is_no_whole_one(pair, serving):
    def fail(connection):
        with pytest.raises(ZeroDivisionError):
            with connection.accept(60) as stream:
                stream.write(b"a part")
                1 / 0
        connection.accept_one_way(60)

    with pair.connect(serving(fail)) as connection:
        with connection.open() as stream:
            stream.write(b"?")
            with pytest.raises(fulmar.StreamReset) as raised:
                stream.read_all(timeout=60)
            assert raised.value.args[1] == 1
        connection.open_one_way().finish()


def test_strangers_are_refused(pair):
    with pair.listen() as server:
        with pytest.raises(fulmar.Error):
            fulmar.connect(server.address, identity=pair.alice, trust=[pair.alice.public_key], timeout=30)


def test_a_home_knows_its_hosts(pair, tmp_path):
    with fulmar.listen("127.0.0.1:0", identity=pair.bob, anybody=True) as server:
        home = tmp_path / "home"
        home.mkdir()
        (home / "identity").write_text(pair.alice.to_pem())
        (home / "identity").chmod(0o600)
        with pytest.raises(fulmar.Untrusted):
            fulmar.connect(server.address, home=home)
        fulmar.connect(server.address, home=home, trust_new=True).close()
        fulmar.connect(server.address, home=home).close()
        name, _ = (home / "known_hosts").read_text().split(" ", 1)
        (home / "known_hosts").write_text(f"{name} {pair.alice.public_key}\n")
        with pytest.raises(fulmar.Untrusted, match="CHANGED"):
            fulmar.connect(server.address, home=home, trust_new=True)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_fork_is_noticed(pair, serving):
    with pair.connect(serving(echo)) as connection, connection.open() as stream:
        child = os.fork()
        if child == 0:
            code = 1
            try:
                stream.write(b"from the child")
            except RuntimeError as error:
                # New ones can be made there.
                code = 0 if "fork" in str(error) and fulmar.listen("127.0.0.1:0", identity=pair.bob, anybody=True) else 2
            finally:
                os._exit(code)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        stream.write(b"the parent goes on")
        stream.finish()
        assert stream.read_all(timeout=60) == b"the parent goes on"


def test_settings_that_mean_nothing_are_refused(pair):
    for settings in [dict(profile="nonsense"), dict(lose_received=2), dict(home=".", trust=[]), dict(bind="here")]:
        with pytest.raises(ValueError):
            fulmar.connect("127.0.0.1:1", **settings)
    with pytest.raises(ValueError):
        fulmar.listen("127.0.0.1:0")
    with pytest.raises(ValueError):
        fulmar.Identity.from_pem("no key")
    again = fulmar.Identity.from_pem(pair.alice.to_pem())
    assert again.public_key == pair.alice.public_key
