"""The same with asyncio."""

import asyncio
import os
import threading
import time

import fulmar.aio
import pytest


def run(main):
    async def limited():
        async with asyncio.timeout(90):
            return await main()

    return asyncio.run(limited())


async def both(pair, serve, talk, **settings):
    """A server and its client."""
    async with pair.listen(fulmar.aio) as server:

        async def serving():
            async with await server.accept() as connection:
                await serve(connection)

        task = asyncio.create_task(serving())
        async with await pair.connect(server, fulmar.aio, **settings) as connection:
            result = await talk(connection)
        await task
        return result


async def echo_all(connection):
    async def one(stream):
        async with stream:
            async for chunk in stream:
                await stream.write(chunk)

    async with asyncio.TaskGroup() as group:
        while True:
            try:
                group.create_task(one(await connection.accept()))
            except fulmar.Closed:
                return


def test_a_hundred_streams_at_once(pair):
    data = os.urandom(20_000)

    async def one(connection, number):
        async with await connection.open() as stream:
            await stream.write(data[number:])
            stream.finish()
            return await stream.read_all() == data[number:]

    async def talk(connection):
        return await asyncio.gather(*(one(connection, number) for number in range(100)))

    assert all(run(lambda: both(pair, echo_all, talk, lose_received=0.02)))


def test_a_cancelled_call_loses_nothing(pair):
    async def serve(connection):
        stream = await connection.accept()
        assert await stream.read() == b"?"
        await stream.write(b"answer")
        stream.finish()
        await connection.send(b"datagram", kind="repaired", deadline=30)
        (await connection.open_one_way()).finish()
        await connection.accept_one_way()

    async def gives_up(call):
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.02):
                await call

    async def talk(connection):
        stream = await connection.open()
        await gives_up(stream.read())
        await gives_up(connection.receive())
        await gives_up(connection.accept_one_way())
        await stream.write(b"?")
        assert await stream.read_exactly(6) == b"answer"
        assert await stream.read() == b""
        assert await connection.receive() == b"datagram"
        assert await (await connection.accept_one_way()).read() == b""
        (await connection.open_one_way()).finish()

    run(lambda: both(pair, serve, talk))


def test_many_tasks_may_wait_for_one_thing(pair):
    async def serve(connection):
        for number in range(20):
            await connection.send(bytes([number]))
            await asyncio.sleep(0)
        await connection.accept_one_way()

    async def talk(connection):
        got = await asyncio.gather(*(connection.receive() for _ in range(20)))
        (await connection.open_one_way()).finish()
        return sorted(got)

    assert run(lambda: both(pair, serve, talk)) == [bytes([number]) for number in range(20)]


def test_a_write_waits_only_where_there_is_no_room(pair):
    async def serve(connection):
        stream = await connection.accept_one_way()
        total = 0
        async for chunk in stream:
            total += len(chunk)
        assert total == 30_000_000
        answer = await connection.open_one_way()
        await answer.write(b"all")
        answer.finish()

    async def talk(connection):
        stream = await connection.open_one_way()
        await stream.write(bytes(30_000_000))
        stream.finish()
        await stream.delivered()
        return await (await connection.accept_one_way()).read()

    assert run(lambda: both(pair, serve, talk)) == b"all"


def test_one_wake_up_for_many(pair, serving):
    """What arrives while the loop is busy wakes it once, not once for each task that waits."""
    goes_on = threading.Event()

    def answer_all(connection):
        streams = [connection.accept(60) for _ in range(100)]
        goes_on.wait(60)
        for stream in streams:
            stream.write(b"!")
            stream.finish()
        connection.accept_one_way(60)

    async def main():
        async with await pair.connect(serving(answer_all), fulmar.aio) as connection:
            streams = [await connection.open() for _ in range(100)]
            for stream in streams:
                await stream.write(b"?")
            reads = [asyncio.create_task(stream.read(1)) for stream in streams]
            await asyncio.sleep(0.1)
            reactor, loop, wakes = fulmar.aio._reactor(), asyncio.get_running_loop(), []
            loop.add_reader(reactor.core.fileno(), lambda: (wakes.append(1), reactor.wake()))
            goes_on.set()
            time.sleep(2)
            assert await asyncio.gather(*reads) == [b"!"] * 100
            (await connection.open_one_way()).finish()
            return len(wakes)

    assert run(main) < 50
