"""The master of a Spark standalone cluster, asked without Spark: whether it accepts connections."""

from __future__ import annotations

import socket

from lakeward.errors import DependencyDown
from lakeward.spec.types import SparkMaster

ANSWER_S = 3.0
"""Spark itself tries for a minute, and then ends without the master's name."""


def reach(master: SparkMaster, timeout_s: float = ANSWER_S) -> str:
    """Connect to a master, or to one that stands by; gives the address of this machine that it is reached from.

    Raises:
        DependencyDown: none of them accepts a connection.
    """
    tried = []
    for place in master.places:
        try:
            with socket.create_connection(place, timeout=timeout_s) as link:
                return str(link.getsockname()[0])
        except OSError as error:
            tried.append(f"{place[0]}:{place[1]}: {error.strerror or error}")
    raise DependencyDown(
        f"The Spark master {master} does not answer", why="; ".join(tried),
        next="start it, or correct drivers: in conf/lakeward.yaml, then: lakeward doctor",
    )  # fmt: skip
