"""What a Kafka cluster says from outside of any query: which topics there are, their ids, where they end.

Spark's own lag figures stop when the query stops; these do not.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Sequence
from datetime import datetime
from functools import lru_cache
from typing import Any

from lakeward.connectors.kafka import refusals
from lakeward.connectors.kafka.cluster import Cluster
from lakeward.connectors.kafka.position import Offsets
from lakeward.platform.errors import LakewardError, SpecError
from lakeward.spec.model.sources import KafkaSource

TIMEOUT_S = 10.0


def topic_ids(cluster: Cluster, source: KafkaSource, timeout_s: float = TIMEOUT_S) -> dict[str, str]:
    """The topics a source reads now, with their ids. A topic deleted and created again has another id.

    Raises:
        DependencyDown: the broker does not answer.
        SpecError: a topic named in the spec does not exist or may not be read, or the broker refuses the login.
    """
    names = [str(topic) for topic in source.topics]
    if source.pattern:
        names = [name for name in _list(cluster, timeout_s) if re.fullmatch(source.pattern, name)]
    found, missing = _describe(cluster, sorted(names), "Read", timeout_s)
    if missing and not source.pattern:
        there = ", ".join(sorted(name for name in _list(cluster, timeout_s) if name[0] != "_")) or "none"
        raise SpecError(
            f"Kafka has no topic {', '.join(missing)}",
            why=f"the brokers at {cluster.bootstrap} have: {there}",
            next="create the topic, or correct kafka: topics: in the stream's file",
            code="LW-3108",
        )
    return found


def check_writable(cluster: Cluster, topic: str, timeout_s: float = TIMEOUT_S) -> None:
    """A topic that is not there yet may be one that the broker makes at the first record.

    Raises:
        DependencyDown: the broker does not answer.
        SpecError: the topic may not be written, or the broker refuses the login.
    """
    _describe(cluster, [topic], "Write", timeout_s)


def _describe(
    cluster: Cluster, names: Sequence[str], operation: str, timeout_s: float
) -> tuple[dict[str, str], list[str]]:
    """Topic -> id of those there are, and those there are not; refused where `operation` is not granted."""
    from confluent_kafka import KafkaError, KafkaException, TopicCollection
    from confluent_kafka.admin import AclOperation  # type: ignore[attr-defined]  # public, but not marked as exported

    if not names:
        return {}, []
    admin, found, missing = _admin(cluster), {}, []
    try:
        asked = admin.describe_topics(
            TopicCollection(list(names)), include_authorized_operations=True, request_timeout=timeout_s
        )
        for name, answer in asked.items():
            try:
                known = answer.result(timeout=timeout_s + 5)
            except KafkaException as error:
                if error.args[0].code() == KafkaError.TOPIC_AUTHORIZATION_FAILED:
                    raise refusals.denied(cluster, operation, name, seen=False) from None
                if error.args[0].code() not in (KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_TOPIC):
                    raise
                missing.append(name)
                continue
            # A broker without access control grants everything; one that says nothing is not second-guessed.
            if known.authorized_operations and AclOperation[operation.upper()] not in known.authorized_operations:
                raise refusals.denied(cluster, operation, name, seen=True)
            found[name] = str(known.topic_id)
    except (KafkaException, TimeoutError) as error:
        raise _down(cluster, error) from None
    return found, missing


def _list(cluster: Cluster, timeout_s: float) -> list[str]:
    """The topics there are, as far as they may be seen."""
    from confluent_kafka import KafkaException

    try:
        return list(_admin(cluster).list_topics(timeout=timeout_s).topics)
    except KafkaException as error:
        raise _down(cluster, error) from None


def end_offsets(cluster: Cluster, topics: Sequence[str], timeout_s: float = TIMEOUT_S) -> Offsets:
    """Where each partition ends (the offset of the next record, uncommitted ones included).

    Topics that do not exist are left out.

    Raises:
        DependencyDown: the broker does not answer.
    """
    return _offsets(cluster, topics, timeout_s, lambda spec: spec.latest())


def begin_offsets(cluster: Cluster, topics: Sequence[str], timeout_s: float = TIMEOUT_S) -> Offsets:
    """The first offset each partition still has.

    Raises:
        DependencyDown: the broker does not answer.
    """
    return _offsets(cluster, topics, timeout_s, lambda spec: spec.earliest())


def offsets_at(cluster: Cluster, topics: Sequence[str], moment: datetime, timeout_s: float = TIMEOUT_S) -> Offsets:
    """The first record of each partition that was written at `moment` or later; its end where there is none.

    Raises:
        DependencyDown: the broker does not answer.
    """
    millis = int(moment.timestamp() * 1000)
    found = _offsets(cluster, topics, timeout_s, lambda spec: spec.for_timestamp(millis))
    ends = end_offsets(cluster, topics, timeout_s)
    return {
        topic: {part: at if at >= 0 else ends[topic][part] for part, at in parts.items()}
        for topic, parts in found.items()
    }


def _offsets(cluster: Cluster, topics: Sequence[str], timeout_s: float, edge: Callable[[Any], Any]) -> Offsets:
    from confluent_kafka import KafkaException, TopicPartition
    from confluent_kafka.admin import OffsetSpec  # type: ignore[attr-defined]  # public, but not marked as exported

    admin = _admin(cluster)
    found: Offsets = {}
    try:
        known = admin.list_topics(timeout=timeout_s).topics
        wanted = {
            TopicPartition(topic, partition): edge(OffsetSpec)
            for topic in topics
            if topic in known
            for partition in known[topic].partitions
        }
        if not wanted:
            return {}
        for each, answer in admin.list_offsets(wanted, request_timeout=timeout_s).items():
            found.setdefault(each.topic, {})[each.partition] = answer.result(timeout=timeout_s + 5).offset
    except (KafkaException, TimeoutError) as error:
        raise _down(cluster, error) from None
    return found


def retentions(cluster: Cluster, topics: Sequence[str], timeout_s: float = TIMEOUT_S) -> dict[str, float | None]:
    """How long each topic keeps a record, in seconds; None for ever. Topics nobody tells about are left out.

    Raises:
        DependencyDown: the broker does not answer.
    """
    from confluent_kafka import KafkaException
    from confluent_kafka.admin import ConfigResource  # type: ignore[attr-defined]  # public, but not marked as exported

    if not topics:
        return {}
    asked = [ConfigResource(ConfigResource.Type.TOPIC, topic) for topic in topics]
    found: dict[str, float | None] = {}
    try:
        for resource, answer in _admin(cluster).describe_configs(asked, request_timeout=timeout_s).items():
            try:
                kept = int(answer.result(timeout=timeout_s + 5)["retention.ms"].value)
            except KafkaException as error:
                if error.args[0].retriable():
                    raise
                continue  # no such topic, or not allowed to ask
            found[str(resource.name)] = kept / 1000 if kept >= 0 else None
    except (KafkaException, TimeoutError) as error:
        raise _down(cluster, error) from None
    return found


def written_at(cluster: Cluster, at: Offsets, timeout_s: float = 5.0) -> dict[tuple[str, int], float]:
    """When the record at each offset was written (seconds since 1970); partitions that give none in time are left out.

    It fetches: ask seldom.
    """
    from confluent_kafka import Consumer, TopicPartition

    places = [TopicPartition(topic, part, offset) for topic, parts in at.items() for part, offset in parts.items()]
    found: dict[tuple[str, int], float] = {}
    one_record = {"queued.min.messages": 1, "fetch.message.max.bytes": 1024}  # a partition: all that is wanted
    consumer = Consumer(cluster.reader("lakeward-lag") | one_record)
    try:
        consumer.assign(places)
        end = time.monotonic() + timeout_s
        while len(found) < len(places) and time.monotonic() < end:
            for message in consumer.consume(100, timeout=0.2):
                topic, part = message.topic(), message.partition()
                if message.error() is None and topic is not None and part is not None and (topic, part) not in found:
                    found[topic, part] = message.timestamp()[1] / 1000
                    consumer.pause([TopicPartition(topic, part)])
    finally:
        consumer.close()
    return found


def _admin(cluster: Cluster) -> Any:
    client, told = _client(cluster, os.getpid(), cluster.version)
    client.poll(0)
    told.clear()
    return client


@lru_cache(maxsize=8)
def _client(cluster: Cluster, pid: int, version: int) -> tuple[Any, list[Any]]:
    """One client a cluster, for it is asked all day; not across a fork, which its threads do not survive, and not
    after its settings changed. With it comes what its connections say, which no request does."""
    from confluent_kafka.admin import AdminClient

    told: list[Any] = []
    patience = {"socket.timeout.ms": 10_000, "reconnect.backoff.max.ms": 1_000}
    return AdminClient(cluster.client() | patience | {"error_cb": told.append}), told


def _down(cluster: Cluster, error: Exception) -> LakewardError:
    client, told = _client(cluster, os.getpid(), cluster.version)
    client.poll(0)
    return refusals.of(cluster, error, told)
