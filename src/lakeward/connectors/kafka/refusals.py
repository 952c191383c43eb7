"""Why a cluster does not do what it was asked, as errors that name what a person can change."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from lakeward.connectors.kafka.cluster import Cluster
from lakeward.connectors.kafka.settings import CA, MECHANISM, PASSWORD, USERNAME
from lakeward.platform.errors import DependencyDown, LakewardError, SpecError

_MOMENT = re.compile(r" \(after \d+ms in state \w+[^)]*\)|: $")


def of(cluster: Cluster, error: Exception, told: Sequence[Any] = ()) -> LakewardError:
    """What a failed request means.

    Args:
        error: of the request; where nobody could log in that is a time-out.
        told: errors of the connection itself (`KafkaError`), which say why.
    """
    from confluent_kafka import KafkaError

    own = [error.args[0]] if error.args and isinstance(error.args[0], KafkaError) else []
    for each in (*told, *own):
        if each.code() in (KafkaError._AUTHENTICATION, KafkaError.SASL_AUTHENTICATION_FAILED):
            return _login(cluster, _text(each))
        if each.code() == KafkaError._SSL:
            return _handshake(cluster, _text(each))
    reason = _text(own[0]) if own else str(error) or "no answer in time"
    return DependencyDown(
        "Kafka does not answer",
        why=f"brokers {cluster.bootstrap}: {reason}",
        next="lakeward stack status   (the stream tries again by itself)",
        code="LW-3116",
    )


def denied(cluster: Cluster, operation: str, topic: str, *, seen: bool) -> SpecError:
    """The user may not do something (`Read`, `Write`) with a topic; `seen` tells whether it may know of it at all."""
    principal, broker = cluster.settings.principal, cluster.bootstrap.partition(",")[0]
    lacks = f"operation {operation} is not granted" if seen else "it may not describe the topic, if there is one"
    return SpecError(
        f"Kafka does not allow {principal} to {operation.lower()} topic {topic}",
        why=f"connection {cluster.connection}, brokers {cluster.bootstrap}: {lacks}",
        next=f"kafka-acls.sh --bootstrap-server {broker} --add --allow-principal {principal} --topic {topic} "
        f"--operation {operation} --operation Describe   then start the stream again: lakeward streams start",
        code="LW-3117",
    )


def _login(cluster: Cluster, reason: str) -> SpecError:
    found = cluster.settings
    return SpecError(
        f"Kafka does not let {found.principal} in",
        why=f"connection {cluster.connection}, {MECHANISM} {found.mechanism}: {reason}",
        next=f"correct {USERNAME}, {PASSWORD} or {MECHANISM} in {cluster.where}, "
        "then start the stream again: lakeward streams start",
        code="LW-3118",
    )


def _handshake(cluster: Cluster, reason: str) -> DependencyDown:
    """A certificate that is renewed at the broker needs nobody here: it is tried again."""
    found = cluster.settings
    return DependencyDown(
        "The TLS handshake with Kafka fails",
        why=f"connection {cluster.connection}, {CA} {found.ca or 'of the machine'}: {reason}",
        next=f"name the authority that signed the brokers' certificates as {CA} in {cluster.where} "
        "(the stream tries again by itself)",
        code="LW-3119",
    )


def _text(error: Any) -> str:
    return _MOMENT.sub("", str(error.str()))
