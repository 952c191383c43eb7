"""A long-lived client is made again after failures in a row and after a silence, and its end holds up nobody."""

from __future__ import annotations

import threading

import pytest

from lakeward.platform.renewed import Renewed


class Client:
    """A client that never recovers, once its server was away."""

    def __init__(self, server: Server) -> None:
        self.server, self.broken = server, False
        server.made.append(self)

    def ask(self) -> str:
        self.broken = self.broken or self.server.away
        if self.broken:
            raise TimeoutError("no answer")
        return "answer"


class Server:
    def __init__(self) -> None:
        self.away, self.made, self.closed = False, list[Client](), list[Client]()


@pytest.fixture
def server() -> Server:
    return Server()


def test_a_client_that_never_recovers_is_replaced_after_failures_in_a_row(server: Server) -> None:
    held = Renewed("test", lambda: Client(server), server.closed.append)
    assert held.use(Client.ask) == "answer"
    server.away = True
    with pytest.raises(TimeoutError):
        held.use(Client.ask)
    server.away = False
    with pytest.raises(TimeoutError):
        held.use(Client.ask)  # the old client: its server is back, and it does not see it
    assert held.use(Client.ask) == "answer"
    assert len(server.made) == 2
    for thread in threading.enumerate():
        if thread.name == "end of test":
            thread.join()
    assert server.closed == server.made[:1]


def test_one_failure_between_answers_replaces_nothing(server: Server) -> None:
    held = Renewed("test", lambda: Client(server))

    def fail(client: Client) -> None:
        raise TimeoutError

    for _ in range(5):
        with pytest.raises(TimeoutError):
            held.use(fail)
        held.use(Client.ask)
    assert len(server.made) == 1


def test_an_answer_that_refuses_is_no_failure_of_the_client(server: Server) -> None:
    held = Renewed("test", lambda: Client(server), counts=lambda error: not isinstance(error, PermissionError))

    def refused(client: Client) -> None:
        raise PermissionError

    for _ in range(5):
        with pytest.raises(PermissionError):
            held.use(refused)
    assert len(server.made) == 1


def test_a_client_that_was_not_used_for_long_is_replaced_first(server: Server) -> None:
    now = [0.0]
    held = Renewed("test", lambda: Client(server), silence_s=60, clock=lambda: now[0])
    held.use(Client.ask)
    now[0] = 59.0
    held.use(Client.ask)
    assert len(server.made) == 1
    now[0] = 120.0
    held.use(Client.ask)
    assert len(server.made) == 2


def test_the_end_of_an_old_client_that_hangs_holds_up_nobody(server: Server) -> None:
    forever = threading.Event()
    held = Renewed("test", lambda: Client(server), lambda client: forever.wait(), failures=1)
    server.away = True
    with pytest.raises(TimeoutError):
        held.use(Client.ask)
    server.away = False
    assert held.use(Client.ask) == "answer"
    forever.set()


def test_an_old_client_whose_end_fails_is_given_up(server: Server) -> None:
    def fail(client: Client) -> None:
        raise OSError

    held = Renewed("test", lambda: Client(server), fail)
    held.use(Client.ask)
    held.end()
    assert held.use(Client.ask) == "answer"
    assert len(server.made) == 2


def test_a_late_failure_of_an_old_client_does_not_count_for_the_new_one(server: Server) -> None:
    held = Renewed("test", lambda: Client(server), failures=1)
    old = held.current()
    held.failed(old)
    new = held.current()
    held.failed(old)
    assert held.current() is new
