"""A taken port is avoided, not fought for."""

from __future__ import annotations

import socket

import pytest

from lakeward.errors import Unhealthy
from lakeward.stack import ports


def test_a_taken_port_is_passed_over() -> None:
    with socket.socket() as other:
        other.bind((ports.HOST, 0))
        other.listen()
        taken = other.getsockname()[1]
        assert not ports.is_free(taken)
        assert ports.answers(taken)
        assert ports.choose(taken) > taken


def test_a_listener_on_every_address_counts() -> None:
    with socket.socket() as other:
        other.bind(("0.0.0.0", 0))
        other.listen()
        assert not ports.is_free(other.getsockname()[1])


def test_two_parts_never_get_the_same_port() -> None:
    first = ports.any_free()
    assert ports.choose(first, [first]) != first


def test_when_all_are_taken_it_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ports, "TRIES", 1)
    with socket.socket() as other:
        other.bind((ports.HOST, 0))
        other.listen()
        taken = other.getsockname()[1]
        with pytest.raises(Unhealthy, match="No free port") as error:
            ports.choose(taken)
        assert str(taken) in error.value.why
