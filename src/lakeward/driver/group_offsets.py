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


@dataclass(frozen=True)
class Group:
    """One consumer group of one cluster."""

    cluster: Cluster
    name: str
    stream: str


@dataclass
class _Known:
    """What was done for a group: the offsets that it has, when to set them again even so, and the reason it was refused
    with."""

    offsets: Offsets
    due: float
    refused: str = ""


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
        tell: what to say of a stream: its id, the kind of the event, the text.
        clock: monotonic seconds.
    """

    def __init__(self, tell: Callable[[str, str, str], None], clock: Callable[[], float] = time.monotonic) -> None:
        self._tell, self._clock = tell, clock
        self._known: dict[Group, _Known] = {}
        self._latest: Mapping[Group, Offsets] = {}
        self._changed = threading.Event()
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._run, name="group-offsets", daemon=True)

    def start(self) -> None:
        """Begin to set offsets."""
        self._thread.start()

    def close(self) -> None:
        """Stop; does not wait for a broker that is down."""
        self._closed.set()
        self._changed.set()

    def offer(self, watched: Sequence[Watched]) -> None:
        """The landed offsets now. Returns at once; what was offered before and is not set yet is forgotten."""
        self._latest = groups(watched)
        self._changed.set()

    def once(self) -> None:
        """Set the offsets that were offered last, of the groups that are due."""
        for group, offsets in self._latest.items():
            known = self._known.get(group)
            changed = known is None or known.offsets != offsets
            if known is not None and self._clock() < known.due and (known.refused or not changed):
                continue
            self._known[group] = self._set(group, offsets, known.refused if known is not None else "")

    def _set(self, group: Group, offsets: Offsets, refused: str) -> _Known:
        try:
            failed = broker.set_group_offsets(group.cluster, group.name, offsets)
        except DependencyDown:
            # The stream itself reports that its broker is down.
            return _Known({}, self._clock() + AWAY_S, refused or "the broker does not answer")
        except LakewardError as error:
            if error.what != refused:
                self._tell(group.stream, "group-offsets", f"{error.what}: its lag is not visible in Kafka's tools")
                _log.warning("group offsets refused", group=group.name, what=error.what, why=error.why, next=error.next)
            return _Known({}, self._clock() + REFUSED_S, error.what)
        reason = "; ".join(failed)
        if reason and reason != refused:
            _log.warning("group offsets not set", group=group.name, partitions=failed[:5])
        return _Known(offsets, self._clock() + AGAIN_S, "")

    def _run(self) -> None:
        while not self._closed.is_set():
            self._changed.wait()
            self._changed.clear()
            if self._closed.is_set():
                return
            try:
                self.once()
            except Exception:  # noqa: BLE001  # named boundary: one unexpected answer must not end the thread
                _log.exception("setting group offsets failed")
