"""Two people who trust each other, and a server that does what a test says."""

import threading

import fulmar
import pytest


class Pair:
    def __init__(self):
        self.alice, self.bob = fulmar.Identity(), fulmar.Identity()

    def listen(self, module=fulmar, **settings):
        return module.listen("127.0.0.1:0", identity=self.bob, trust=[self.alice.public_key], **settings)

    def connect(self, server, module=fulmar, **settings):
        return module.connect(server.address, identity=self.alice, trust=[self.bob.public_key], **settings)


@pytest.fixture
def pair():
    return Pair()


@pytest.fixture
def serving(pair):
    """A server that gives its one client to a function, in a thread; what that raised fails the test."""
    with pair.listen() as server:
        threads, raised = [], []

        def start(serve):
            def run():
                try:
                    with server.accept(60) as connection:
                        serve(connection)
                except BaseException as error:
                    raised.append(error)

            threads.append(threading.Thread(target=run))
            threads[-1].start()
            return server

        yield start
        for thread in threads:
            thread.join(60)
        assert not raised, raised
