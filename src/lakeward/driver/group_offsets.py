"""The landed offsets in Kafka consumer groups: a copy for Kafka's own tools, which Lakeward never reads.

Each stream has the group `lakeward.<stream>` on each cluster it reads. Burrow, lag exporters and
`kafka-consumer-groups.sh` then show the true lag. A thread of its own sets the offsets, so that a broker that is slow
or away costs neither a batch nor the measurement of the lag.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import structlog

from lakeward.connectors.kafka import broker, position
from lakeward.connectors.kafka.cluster import Cluster
from lakeward.connectors.kafka.position import Offsets
from lakeward.driver.lag import Watched
from lakeward.platform.errors import DependencyDown, LakewardError

_log = structlog.get_logger(__name__)

PREFIX = "lakeward."
AGAIN_S = 600.0
"""Unchanged offsets are set again after this long: Kafka forgets the offsets of a group that is not used for days."""
REFUSED_S = 600.0
"""How long a group that the broker refused is left alone."""
AWAY_S = 10.0
"""How long a group is left alone whose broker did not answer."""
PAUSE_S = 1.0
"""Offsets are set once in this time at most, whatever the number of batches."""
CLOSE_S = 3.0
"""How long the end of a driver waits for the offsets of its last batches."""


@dataclass(frozen=True)
class Group:
    """One consumer group of one cluster."""

    cluster: Cluster
    name: str
    stream: str


@dataclass
class _Known:
    """What was done for a group.

    Attributes:
        offsets: those that it has.
        due: when to set them again even so; after a failure, when to try again.
        refused: why nothing could be set; empty if it could.
        failed: the partitions that could not be set, as they were logged.
    """

    offsets: Offsets
    due: float
    refused: str = ""
    failed: str = ""


def groups(watched: Sequence[Watched]) -> dict[Group, Offsets]:
    """The offsets of each group; of a partition that several sources read, the lowest. Pure."""
    result: dict[Group, Offsets] = {}
    for source in watched:
        if not source.mirrored:
            continue
        offsets = result.setdefault(Group(source.cluster, PREFIX + source.stream, source.stream), {})
        for topic, parts in position.parse(source.at).items():
            known = offsets.setdefault(topic, {})
            for part, offset in parts.items():
                if offset >= 0:  # a negative offset stands for an end of the partition
                    known[part] = min(offset, known.get(part, offset))
    return result


class GroupOffsets:
    """Sets the offsets of groups when they change.

    Args:
        positions: the landed positions of the running streams.
        tell: what to say of a stream: its id, the kind of the event, the text.
        clock: monotonic seconds.
    """

    def __init__(
        self,
        positions: Callable[[], Sequence[Watched]],
        tell: Callable[[str, str, str], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._positions, self._tell, self._clock = positions, tell, clock
        self._lock = threading.Lock()
        self._known: dict[Group, _Known] = {}
        self._latest: Mapping[Group, Offsets] = {}
        self._changed = threading.Event()
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._run, name="group-offsets", daemon=True)

    def start(self) -> None:
        """Begin to set offsets."""
        self._thread.start()

    def close(self) -> None:
        """Set the positions that were read last, and stop; waits at most `CLOSE_S`."""
        self._closed.set()
        self._changed.set()
        if self._thread.is_alive():
            self._thread.join(CLOSE_S)

    def refresh(self) -> None:
        """Read the positions, to be set soon; returns at once. A stream that no longer runs keeps its last one."""
        with self._lock:  # whoever reads later reads newer positions
            self._latest = {**self._latest, **groups(self._positions())}
        self._changed.set()

    def once(self) -> None:
        """Set the offsets that were read last, of the groups that are due."""
        for group, offsets in self._latest.items():
            known = self._known.get(group, _Known({}, self._clock()))
            waits = known.refused or known.offsets == offsets
            if self._clock() < known.due and waits:
                continue
            self._known[group] = self._set(group, offsets, known)

    def _set(self, group: Group, offsets: Offsets, known: _Known) -> _Known:
        try:
            failed = "; ".join(broker.set_group_offsets(group.cluster, group.name, offsets))
        except DependencyDown:
            # The stream itself reports that its broker is down.
            return _Known({}, self._clock() + AWAY_S, known.refused or "the broker does not answer", known.failed)
        except LakewardError as error:
            if error.what != known.refused:
                self._tell(group.stream, "group-offsets", f"{error.what}: its lag is not visible in Kafka's tools")
                _log.warning("group offsets refused", group=group.name, what=error.what, why=error.why, next=error.next)
            return _Known({}, self._clock() + REFUSED_S, error.what, known.failed)
        if failed and failed != known.failed:
            _log.warning("group offsets of partitions not set", group=group.name, failed=failed[:500])
        return _Known(offsets, self._clock() + AGAIN_S, "", failed)

    def _run(self) -> None:
        while True:
            self._changed.wait()
            self._changed.clear()
            closing = self._closed.is_set()
            try:
                self.once()
            except Exception:  # noqa: BLE001  # named boundary: one unexpected answer must not end the thread
                _log.exception("setting group offsets failed")
            if closing:
                return
            self._closed.wait(PAUSE_S)
