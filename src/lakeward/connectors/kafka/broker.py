"""Asks a Kafka cluster about topics without a query: their ids, offsets, retention and access.

Spark's lag figures stop when the query stops; these do not.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import lru_cache, partial
from typing import Any, TypeVar

from lakeward.connectors.kafka import refusals
from lakeward.connectors.kafka.arrived import arrived, written
from lakeward.connectors.kafka.cluster import Cluster
from lakeward.connectors.kafka.position import Offsets
from lakeward.platform.errors import Awaited, DependencyDown
from lakeward.platform.renewed import Renewed
from lakeward.spec.model.sources import Isolation, KafkaSource

R = TypeVar("R")
TIMEOUT_S = 10.0
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def topic_ids(cluster: Cluster, source: KafkaSource, timeout_s: float = TIMEOUT_S) -> dict[str, str]:
    """Topic -> id of the topics that a source reads now. A topic that was deleted and created again has another id.

    Raises:
        DependencyDown: the broker does not answer.
        Awaited: a topic of the spec does not exist.
        SpecError: a topic may not be read, or the broker refuses the login.
    """
    names = [str(topic) for topic in source.topics]
    if source.pattern:
        names = [name for name in _list(cluster, timeout_s) if re.fullmatch(source.pattern, name)]
    ids, missing = _describe(cluster, sorted(names), "Read", timeout_s)
    if missing and not source.pattern:
        existing = ", ".join(sorted(name for name in _list(cluster, timeout_s) if name[0] != "_")) or "none"
        raise Awaited(
            f"Kafka has no topic {', '.join(missing)}",
            why=f"the brokers at {cluster.bootstrap} have: {existing}",
            next="create the topic (a stream then begins by itself within a minute), or correct kafka: topics: "
            "in the stream's file",
            code="LW-3108",
        )
    return ids


def existing_ids(cluster: Cluster, topics: Sequence[str], timeout_s: float = TIMEOUT_S) -> dict[str, str]:
    """Topic -> id of those of the topics that exist.

    Raises:
        DependencyDown: the broker does not answer.
        SpecError: a topic may not be read, or the broker refuses the login.
    """
    return _describe(cluster, topics, "Read", timeout_s)[0]


def check_writable(cluster: Cluster, topic: str, timeout_s: float = TIMEOUT_S) -> None:
    """Check that a topic may be written. A missing topic passes: the broker may create it at the first record.

    Raises:
        DependencyDown: the broker does not answer.
        SpecError: the topic may not be written, or the broker refuses the login.
    """
    _describe(cluster, [topic], "Write", timeout_s)


def _describe(
    cluster: Cluster, names: Sequence[str], operation: str, timeout_s: float
) -> tuple[dict[str, str], list[str]]:
    """Topic -> id of the existing topics, and the missing topics; raises if `operation` is not granted."""
    from confluent_kafka import KafkaError, KafkaException, TopicCollection
    from confluent_kafka.admin import AclOperation

    if not names:
        return {}, []

    def described(admin: Any) -> tuple[dict[str, str], list[str]]:
        ids: dict[str, str] = {}
        missing: list[str] = []
        answers = admin.describe_topics(
            TopicCollection(list(names)), include_authorized_operations=True, request_timeout=timeout_s
        )
        for name, answer in answers.items():
            try:
                description = answer.result(timeout=timeout_s + 5)
            except KafkaException as error:
                if error.args[0].code() == KafkaError.TOPIC_AUTHORIZATION_FAILED:
                    raise refusals.denied(cluster, operation, name, described=False) from None
                if error.args[0].code() not in (KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_TOPIC):
                    raise
                missing.append(name)
                continue
            # Without access control the broker lists every operation. An empty list means that it does not say.
            granted = description.authorized_operations
            if granted and AclOperation[operation.upper()] not in granted:
                raise refusals.denied(cluster, operation, name, described=True)
            ids[name] = str(description.topic_id)
        return ids, missing

    return _request(cluster, described)


def _list(cluster: Cluster, timeout_s: float) -> list[str]:
    """The topics that the login may list."""
    return _request(cluster, lambda admin: list(admin.list_topics(timeout=timeout_s).topics))


def end_offsets(
    cluster: Cluster, topics: Sequence[str], timeout_s: float = TIMEOUT_S, isolation: Isolation = "read_uncommitted"
) -> Offsets:
    """The end of each partition: the offset of the next record. Missing topics are left out.

    Args:
        isolation: `read_uncommitted`: the high watermark. `read_committed`: the last stable offset, past which records
            cannot be read while a transaction is open.

    Raises:
        DependencyDown: the broker does not answer.
    """
    return _offsets(cluster, topics, timeout_s, lambda spec: spec.latest(), isolation)


def begin_offsets(cluster: Cluster, topics: Sequence[str], timeout_s: float = TIMEOUT_S) -> Offsets:
    """The first offset that each partition still has.

    Raises:
        DependencyDown: the broker does not answer.
    """
    return _offsets(cluster, topics, timeout_s, lambda spec: spec.earliest())


def offsets_at(
    cluster: Cluster,
    topics: Sequence[str],
    moment: datetime,
    timeout_s: float = TIMEOUT_S,
    isolation: Isolation = "read_uncommitted",
) -> Offsets:
    """The first record of each partition that was written at `moment` or later; the partition's end if there is none.

    Args:
        isolation: as in `end_offsets`; no offset is past the end.

    Raises:
        DependencyDown: the broker does not answer.
    """
    millis = -((_EPOCH - moment) // timedelta(milliseconds=1))  # rounded up: a record before the moment is too early
    millis = max(0, millis)  # Kafka takes negative times for names: -1 is the end
    offsets = _offsets(cluster, topics, timeout_s, lambda spec: spec.for_timestamp(millis))
    ends = end_offsets(cluster, topics, timeout_s, isolation)
    return {
        topic: {part: min(at, ends[topic][part]) if at >= 0 else ends[topic][part] for part, at in parts.items()}
        for topic, parts in offsets.items()
    }


def _offsets(
    cluster: Cluster,
    topics: Sequence[str],
    timeout_s: float,
    edge: Callable[[Any], Any],
    isolation: Isolation = "read_uncommitted",
) -> Offsets:
    from confluent_kafka import IsolationLevel, TopicPartition
    from confluent_kafka.admin import OffsetSpec

    def request_offsets(admin: Any) -> Offsets:
        offsets: Offsets = {}
        existing = admin.list_topics(timeout=timeout_s).topics
        requests = {
            TopicPartition(topic, partition): edge(OffsetSpec)
            for topic in topics
            if topic in existing
            for partition in existing[topic].partitions
        }
        if not requests:
            return {}
        level = IsolationLevel[isolation.upper()]
        for part, answer in admin.list_offsets(requests, request_timeout=timeout_s, isolation_level=level).items():
            offsets.setdefault(part.topic, {})[part.partition] = answer.result(timeout=timeout_s + 5).offset
        return offsets

    return _request(cluster, request_offsets)


def set_group_offsets(cluster: Cluster, group: str, at: Offsets, timeout_s: float = TIMEOUT_S) -> list[str]:
    """Set the offsets of a consumer group that has no members. The group is created by it.

    Returns:
        The partitions that were refused, with the broker's reason, e.g. of a topic that was deleted.

    Raises:
        DependencyDown: the broker does not answer, or the group's coordinator is just being found.
        Refused: the login may not use the group, or the group has members.
        SpecError: the broker refuses the login.
    """
    from confluent_kafka import ConsumerGroupTopicPartitions, KafkaError, KafkaException, TopicPartition

    parts = [TopicPartition(topic, part, offset) for topic, parts in at.items() for part, offset in parts.items()]
    moving = (
        KafkaError.NOT_COORDINATOR,
        KafkaError.COORDINATOR_NOT_AVAILABLE,
        KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
    )
    if not parts:
        return []

    def altered(admin: Any) -> list[str]:
        answers = admin.alter_consumer_group_offsets(
            [ConsumerGroupTopicPartitions(group, parts)], request_timeout=timeout_s
        )
        try:
            result = answers[group].result(timeout=timeout_s + 5)
        except KafkaException as error:
            refused = refusals.group(cluster, group, error.args[0])
            if refused is None:
                raise
            raise refused from None
        failed = [part for part in result.topic_partitions if part.error is not None]
        for part in failed:  # a group with members is refused partition by partition
            refused = refusals.group(cluster, group, part.error)
            if refused is not None:
                raise refused
            if part.error.code() in moving:
                raise KafkaException(part.error)
        return [f"{part.topic}-{part.partition}: {part.error.str()}" for part in failed]

    return _request(cluster, altered)


def retentions(cluster: Cluster, topics: Sequence[str], timeout_s: float = TIMEOUT_S) -> dict[str, float | None]:
    """The retention of each topic in seconds; None: unlimited. Missing topics, and topics without access, are left out.

    Raises:
        DependencyDown: the broker does not answer.
    """
    from confluent_kafka import KafkaException
    from confluent_kafka.admin import ConfigResource

    if not topics:
        return {}
    resources = [ConfigResource(ConfigResource.Type.TOPIC, topic) for topic in topics]

    def described(admin: Any) -> dict[str, float | None]:
        retention: dict[str, float | None] = {}
        for resource, answer in admin.describe_configs(resources, request_timeout=timeout_s).items():
            try:
                millis = int(answer.result(timeout=timeout_s + 5)["retention.ms"].value)
            except KafkaException as error:
                if error.args[0].retriable():
                    raise
                continue  # the topic does not exist, or its configuration may not be read
            retention[str(resource.name)] = millis / 1000 if millis >= 0 else None
        return retention

    return _request(cluster, described)


def written_at(
    cluster: Cluster, at: Offsets, timeout_s: float = 5.0, isolation: Isolation = "read_committed"
) -> dict[tuple[str, int], float]:
    """When the record at each offset was written (seconds since 1970); partitions that do not answer in time are left
    out, and so are records without a time. Records of open transactions are seen with `read_uncommitted` only.

    It fetches records, so it should be called rarely.
    """
    from confluent_kafka import Consumer, TopicPartition

    assigned = [TopicPartition(topic, part, offset) for topic, parts in at.items() for part, offset in parts.items()]
    times: dict[tuple[str, int], float | None] = {}
    one_record = {"queued.min.messages": 1, "fetch.message.max.bytes": 1024}  # only one record a partition is needed
    consumer = Consumer(cluster.consumer("lakeward-lag") | one_record | {"isolation.level": isolation})
    try:
        consumer.assign(assigned)
        end = time.monotonic() + timeout_s
        while len(times) < len(assigned) and time.monotonic() < end:
            for message in arrived(consumer, 100, 0.2):
                topic, part = message.topic(), message.partition()
                if message.error() is None and topic is not None and part is not None and (topic, part) not in times:
                    times[topic, part] = written(message)
                    consumer.pause([TopicPartition(topic, part)])
    finally:
        consumer.close()
    return {key: at for key, at in times.items() if at is not None}


@dataclass
class _Client:
    """An admin client and the list of its connection errors, which no request returns."""

    admin: Any
    errors: list[Any]


def _request(cluster: Cluster, act: Callable[[Any], R]) -> R:
    """What `act` returns for an admin client of the cluster.

    Raises:
        LakewardError: the request failed. A client that failed twice in a row without an answer is made again:
            librdkafka's may never find a broker again that was away for a minute.
    """
    from confluent_kafka import KafkaException

    def answer(client: _Client) -> R:
        client.admin.poll(0)
        client.errors.clear()
        try:
            return act(client.admin)
        except (KafkaException, TimeoutError) as error:
            client.admin.poll(0)
            raise refusals.of(cluster, error, client.errors) from None

    return _held(cluster, os.getpid(), cluster.version).use(answer)


@lru_cache(maxsize=8)
def _held(cluster: Cluster, pid: int, version: int) -> Renewed[_Client]:
    """The admin client of a cluster, kept because it is used all day. A new one is created after a fork, which its
    threads do not survive, and after a change of the settings.
    """
    return Renewed(
        f"Kafka admin client of {cluster.connection}",
        partial(_connect, cluster),
        _release,
        counts=lambda error: isinstance(error, DependencyDown),
    )


def _release(client: _Client) -> None:
    del client.admin  # librdkafka's client has no close: it ends with its last reference, and may wait for its broker


def _connect(cluster: Cluster) -> _Client:
    from confluent_kafka.admin import AdminClient

    errors: list[Any] = []
    timeouts = {"socket.timeout.ms": 10_000, "reconnect.backoff.max.ms": 1_000}
    return _Client(AdminClient(cluster.client() | timeouts | {"error_cb": errors.append}), errors)
