"""Looks up, for the audit, which of the offsets that are in no table hold a record in their topic."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from lakeward.connectors.commit_protocol.position import Position
from lakeward.connectors.kafka import broker, records
from lakeward.connectors.kafka import position as kafka_position
from lakeward.connectors.kafka.cluster import Cluster
from lakeward.connectors.kafka.cluster import find as find_cluster
from lakeward.connectors.kafka.records import Partition, Records, Span
from lakeward.platform.errors import DependencyDown, SpecError
from lakeward.platform.runtime import Runtime
from lakeward.spec.model.sources import Isolation, Source


class TopicLookup:
    """The records of a stream's Kafka sources, read at the isolation level of each source.

    A topic that cannot be read (its broker is down, it was deleted or created again) is returned as unread.
    """

    def __init__(self, runtime: Runtime, sources: Mapping[str, Source], position: Position) -> None:
        self._runtime = runtime
        self._sources = sources
        self._position = position

    def __call__(self, absent: Mapping[Partition, Sequence[Span]]) -> dict[Partition, Records]:
        """The records in the ranges, by partition."""
        found: dict[Partition, Records] = {}
        for name, end in self._position.end.items():
            source = self._sources.get(name)
            if source is None or source.kafka is None:
                continue
            topics = kafka_position.parse(end)
            spans = {part: ranges for part, ranges in absent.items() if part[0] in topics}
            if not spans:
                continue
            try:
                cluster = find_cluster(source.kafka.connection, self._runtime)
                found |= self._found_in(cluster, spans, source.kafka.isolation_level)
            except (DependencyDown, SpecError):
                continue
        return {part: found.get(part, Records(unread=tuple(spans))) for part, spans in absent.items()}

    def _found_in(
        self, cluster: Cluster, spans: Mapping[Partition, Sequence[Span]], isolation: Isolation
    ) -> dict[Partition, Records]:
        ids = broker.existing_ids(cluster, sorted({topic for topic, _ in spans}))
        other = {topic for topic, known in self._position.topic_ids.items() if ids.get(topic) != known}
        same = {part: ranges for part, ranges in spans.items() if part[0] not in other}
        return records.find(cluster, same, isolation) if same else {}
