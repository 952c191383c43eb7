"""What a Kafka cluster says from outside of any query: which topics there are, their ids, where they end.

Spark's own lag figures stop when the query stops; these do not.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from lakeward.connectors.kafka.position import Offsets
from lakeward.errors import DependencyDown, SpecError
from lakeward.spec.sources import KafkaSource

TIMEOUT_S = 10.0


def bootstrap_of(connection: str, known: Mapping[str, str]) -> str:
    """The bootstrap servers of a connection.

    Raises:
        SpecError: this deployment does not know the connection.
    """
    found = known.get(connection)
    if found is None:
        raise SpecError(
            f"There is no Kafka connection {connection!r}",
            why=f"known connections: {', '.join(sorted(known)) or 'none'}",
            next="name one of them under kafka: connection:, or add it to conf/lakeward.yaml",
        )
    return found


def topic_ids(bootstrap: str, source: KafkaSource, timeout_s: float = TIMEOUT_S) -> dict[str, str]:
    """The topics a source reads now, with their ids. A topic deleted and created again has another id.

    Raises:
        DependencyDown: the broker does not answer.
        SpecError: a topic named in the spec does not exist.
    """
    from confluent_kafka import KafkaException, TopicCollection

    admin = _admin(bootstrap)
    names = sorted(_topics(admin, bootstrap, source, timeout_s))
    if not names:
        return {}
    try:
        answers = admin.describe_topics(TopicCollection(names), request_timeout=timeout_s)
        return {name: str(answers[name].result(timeout=timeout_s + 5).topic_id) for name in names}
    except (KafkaException, TimeoutError) as error:
        raise _down(bootstrap, error) from None


def end_offsets(bootstrap: str, topics: Sequence[str], timeout_s: float = TIMEOUT_S) -> Offsets:
    """Where each partition ends (the offset of the next record, uncommitted ones included).

    Topics that do not exist are left out.

    Raises:
        DependencyDown: the broker does not answer.
    """
    return _offsets(bootstrap, topics, timeout_s, earliest=False)


def begin_offsets(bootstrap: str, topics: Sequence[str], timeout_s: float = TIMEOUT_S) -> Offsets:
    """The first offset each partition still has.

    Raises:
        DependencyDown: the broker does not answer.
    """
    return _offsets(bootstrap, topics, timeout_s, earliest=True)


def _offsets(bootstrap: str, topics: Sequence[str], timeout_s: float, *, earliest: bool) -> Offsets:
    from confluent_kafka import KafkaException, TopicPartition
    from confluent_kafka.admin import OffsetSpec  # type: ignore[attr-defined]  # public, but not marked as exported

    admin = _admin(bootstrap)
    found: Offsets = {}
    try:
        known = admin.list_topics(timeout=timeout_s).topics
        edge: Any = OffsetSpec.earliest if earliest else OffsetSpec.latest
        wanted = {
            TopicPartition(topic, partition): edge()
            for topic in topics
            if topic in known
            for partition in known[topic].partitions
        }
        if not wanted:
            return {}
        for each, answer in admin.list_offsets(wanted, request_timeout=timeout_s).items():
            found.setdefault(each.topic, {})[each.partition] = answer.result(timeout=timeout_s + 5).offset
    except (KafkaException, TimeoutError) as error:
        raise _down(bootstrap, error) from None
    return found


def _topics(admin: Any, bootstrap: str, source: KafkaSource, timeout_s: float) -> list[str]:
    from confluent_kafka import KafkaException

    try:
        known = admin.list_topics(timeout=timeout_s).topics
    except KafkaException as error:
        raise _down(bootstrap, error) from None
    if source.pattern:
        return [name for name in known if re.fullmatch(source.pattern, name)]
    missing = [name for name in source.topics if name not in known or known[name].error is not None]
    if missing:
        raise SpecError(
            f"Kafka has no topic {', '.join(missing)}",
            why=f"the brokers at {bootstrap} have: {', '.join(sorted(n for n in known if n[0] != '_')) or 'none'}",
            next="create the topic, or correct kafka: topics: in the stream's file",
        )
    return list(source.topics)


def _admin(bootstrap: str) -> Any:
    from confluent_kafka.admin import AdminClient

    # librdkafka writes every refused connection to stderr; the error that is raised says it once.
    return AdminClient({"bootstrap.servers": bootstrap, "log_level": 0, "socket.timeout.ms": 10_000})


def _down(bootstrap: str, error: Exception) -> DependencyDown:
    reason = error.args[0].str() if error.args and hasattr(error.args[0], "str") else str(error) or "no answer in time"
    return DependencyDown(
        "Kafka does not answer",
        why=f"brokers {bootstrap}: {reason}",
        next="lakeward stack status   (the stream tries again by itself)",
    )
