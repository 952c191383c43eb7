"""Loopback ports: the remembered port if it is this stack's or free, otherwise the next free one."""

from __future__ import annotations

import random
import socket
from collections.abc import Iterable

from lakeward.platform.errors import Unhealthy

HOST = "127.0.0.1"
TRIES = 40
SHORT_LIVED = range(20_000, 32_768)
"""Below the ephemeral ports of Linux (from 32768) and macOS (from 49152), above the usual servers."""


def is_free(port: int) -> bool:
    """Whether a server could listen on this loopback port now."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        # As the servers do: a port in TIME_WAIT is free, one with a listener (even on 0.0.0.0) is not.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError:
            return False
    return True


def answers(port: int) -> bool:
    """Whether something accepts connections there."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.settimeout(1.0)
        return probe.connect_ex((HOST, port)) == 0


def choose(preferred: int, taken: Iterable[int] = ()) -> int:
    """`preferred`, or the next higher port that is free and not in `taken`.

    The system's free ports are from the ephemeral range, where an outgoing connection may occupy the port at the next
    start of the server.

    Raises:
        Unhealthy: none of the next ports is free.
    """
    reserved = set(taken)
    for port in range(preferred, preferred + TRIES):
        if port not in reserved and is_free(port):
            return port
    raise Unhealthy(
        "No free port",
        why=f"{HOST}:{preferred} to {preferred + TRIES - 1} are all in use",
        next="lakeward doctor",
        code="LW-9003",
    )


def any_free() -> int:
    """A free port for a short-lived server; drawn at random, so that parallel processes rarely draw the same.

    It is never in the ephemeral range (see `choose`): a server may need half a minute until it listens, and until then
    an outgoing connection could occupy the port.

    Raises:
        Unhealthy: none of the drawn ports is free.
    """
    drawn = random.SystemRandom().sample(SHORT_LIVED, TRIES)
    for port in drawn:
        if is_free(port):
            return port
    raise Unhealthy(
        "No free port", why=f"{TRIES} ports of {HOST} are all in use", next="lakeward doctor", code="LW-9004"
    )
