"""A taken port is avoided, not fought for."""

from __future__ import annotations

import socket

import pytest

from lakeward.platform import ports
from lakeward.platform.errors import Unhealthy


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


def test_a_short_lived_server_never_gets_a_number_of_outgoing_connections() -> None:
    # One that begins to listen half a minute later found a client, or another server, on its number.
    for _ in range(20):
        port = ports.any_free()
        assert port < 32768
        assert ports.is_free(port)


def test_a_short_lived_server_gets_no_taken_number(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket() as other:
        other.bind((ports.HOST, 0))
        taken = other.getsockname()[1]
        monkeypatch.setattr(ports, "TRIES", 2)
        monkeypatch.setattr(ports, "SHORT_LIVED", (taken, ports.any_free()))
        assert {ports.any_free() for _ in range(8)} == {ports.SHORT_LIVED[1]}
        monkeypatch.setattr(ports, "TRIES", 1)
        monkeypatch.setattr(ports, "SHORT_LIVED", (taken,))
        with pytest.raises(Unhealthy, match="No free port"):
            ports.any_free()
