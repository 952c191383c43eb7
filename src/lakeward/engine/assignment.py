"""Desired state of a driver: the assignments and requests of the registry, read about once a second."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property
from typing import Any

from lakeward.registry.backpressure import TableBackpressure
from lakeward.registry.leases import STREAM_TTL
from lakeward.spec.model.stream import StreamSpec
from lakeward.spec.python.packages import digest_of


@dataclass(frozen=True)
class Assignment:
    """One stream that should run.

    Attributes:
        stream, generation: what to run.
        document: the resolved spec, as the registry has it.
        checkpoint: the folder of its checkpoint.
        known_query: its last known query id; None if it never ran.
    """

    stream: str
    generation: int
    document: Mapping[str, Any]
    checkpoint: str
    known_query: str | None = None

    @cached_property
    def spec(self) -> StreamSpec:
        """The spec as a model."""
        return StreamSpec.model_validate(dict(self.document))

    @property
    def table(self) -> str | None:
        """The table of the lake it lands in; None if the sink is not one."""
        sink = self.document.get("sink") or {}
        return next((str(sink[kind]["table"]) for kind in ("iceberg", "delta") if sink.get(kind)), None)

    @property
    def packages(self) -> str | None:
        """The digest of the packages its Python needs; None without packages."""
        lines = self.document.get("packages")
        return digest_of(lines) if lines else None


@dataclass(frozen=True)
class DesiredState:
    """What the registry asked of this driver at one moment.

    Attributes:
        now: database time.
        run: streams to run now, by id.
        later: streams to run as soon as their back-off is over.
        hosted: every stream of this driver, also stopped ones.
        fenced: a newer launch of this driver exists.
        windows: table -> token of the maintenance that asks streams which change its rows to pause.
        pressures: table -> how streams that write it are slowed down, because its maintenance is behind.
    """

    now: datetime
    run: Mapping[str, Assignment] = field(default_factory=dict)
    later: frozenset[str] = frozenset()
    hosted: frozenset[str] = frozenset()
    fenced: bool = False
    windows: Mapping[str, str] = field(default_factory=dict)
    pressures: Mapping[str, TableBackpressure] = field(default_factory=dict)

    def request(self, taken: float) -> DesiredState | None:
        """This state while its requests to pause or slow down are valid; None once it is older than a lease.

        So a registry that is down cannot hold streams up.

        Args:
            taken: when it was read (monotonic).
        """
        return self if time.monotonic() - taken < STREAM_TTL.total_seconds() else None
