"""Resolves `starting_offsets` to numbers once, so that `latest` means the same offsets at every start attempt."""

from __future__ import annotations

from lakeward.connectors.kafka import broker, position
from lakeward.connectors.kafka.cluster import Cluster
from lakeward.connectors.kafka.position import EARLIEST
from lakeward.spec.model.sources import KafkaSource

_LATEST = -1


def resolve(source: KafkaSource, cluster: Cluster, topics: list[str]) -> str:
    """`starting_offsets` as a position with every existing partition.

    Raises:
        DependencyDown: the broker does not answer.
    """
    begins = broker.begin_offsets(cluster, topics)
    ends = broker.end_offsets(cluster, topics, isolation=source.isolation_level)  # Spark's `latest` is the same
    chosen = source.starting_offsets
    resolved: position.Offsets = {}
    for topic, parts in ends.items():
        for part, end in parts.items():
            begin = begins[topic][part]
            if isinstance(chosen, str):
                at = EARLIEST if chosen == "earliest" else _LATEST
            else:
                at = chosen.get(topic, {}).get(str(part), EARLIEST)  # type: ignore[call-overload]  # a Topic is a str
            resolved.setdefault(topic, {})[part] = {EARLIEST: begin, _LATEST: end}.get(at, at)
    return position.render(resolved)


def with_new_partitions(known: str, cluster: Cluster, topics: list[str]) -> str:
    """The position extended by new partitions, which start at their first record.

    Raises:
        DependencyDown: the broker does not answer.
    """
    at, begins = position.parse(known), broker.begin_offsets(cluster, topics)
    return position.render(
        {topic: {p: at.get(topic, {}).get(p, first) for p, first in parts.items()} for topic, parts in begins.items()}
    )


def partitions(cluster: Cluster, topics: list[str]) -> int:
    """The number of partitions of all topics together.

    Raises:
        DependencyDown: the broker does not answer.
    """
    return sum(len(parts) for parts in broker.end_offsets(cluster, topics).values())
