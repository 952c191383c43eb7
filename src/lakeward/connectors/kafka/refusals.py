"""Errors for failed requests to a Kafka cluster: no answer, login refused, TLS handshake failed, access denied."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from lakeward.connectors.kafka.cluster import Cluster
from lakeward.connectors.kafka.settings import CA, MECHANISM, PASSWORD, USERNAME
from lakeward.platform.errors import DependencyDown, LakewardError, Refused, SpecError

_TIMING = re.compile(r" \(after \d+ms in state \w+[^)]*\)|: $")


def of(cluster: Cluster, error: Exception, connection_errors: Sequence[Any] = ()) -> LakewardError:
    """The error for a failed request.

    Args:
        error: the error of the request; a refused login ends in a time-out.
        connection_errors: errors of the connection (`KafkaError`), which have the cause.
    """
    from confluent_kafka import KafkaError

    own = [error.args[0]] if error.args and isinstance(error.args[0], KafkaError) else []
    for cause in (*connection_errors, *own):
        if cause.code() in (KafkaError._AUTHENTICATION, KafkaError.SASL_AUTHENTICATION_FAILED):
            return _login(cluster, _text(cause))
        if cause.code() == KafkaError._SSL:
            return _handshake(cluster, _text(cause))
    reason = _text(own[0]) if own else str(error) or "no answer in time"
    return DependencyDown(
        "Kafka does not answer",
        why=f"brokers {cluster.bootstrap}: {reason}",
        next="lakeward stack status   (the stream retries by itself)",
        code="LW-3116",
    )


def denied(cluster: Cluster, operation: str, topic: str, *, described: bool) -> SpecError:
    """The error for an operation (`Read`, `Write`) on a topic that is not granted.

    Args:
        described: whether the login may describe the topic.
    """
    principal, broker = cluster.settings.principal, cluster.bootstrap.partition(",")[0]
    denial = (
        f"operation {operation} is not granted"
        if described
        else "operation Describe is not granted, so it is unknown whether the topic exists"
    )
    return SpecError(
        f"Kafka does not allow {principal} to {operation.lower()} topic {topic}",
        why=f"connection {cluster.connection}, brokers {cluster.bootstrap}: {denial}",
        next=f"kafka-acls.sh --bootstrap-server {broker} --add --allow-principal {principal} --topic {topic} "
        f"--operation {operation} --operation Describe",
        code="LW-3117",
    )


def group(cluster: Cluster, name: str, error: Any) -> LakewardError | None:
    """The error for a consumer group whose offsets cannot be set; None if the broker did not refuse it.

    Args:
        error: the error of the request (`KafkaError`).
    """
    from confluent_kafka import KafkaError

    principal, broker = cluster.settings.principal, cluster.bootstrap.partition(",")[0]
    if error.code() == KafkaError.GROUP_AUTHORIZATION_FAILED:
        return Refused(
            f"Kafka does not allow {principal} to set the offsets of consumer group {name}",
            why=f"connection {cluster.connection}, brokers {cluster.bootstrap}: Read on the group is not granted",
            next=f"kafka-acls.sh --bootstrap-server {broker} --add --allow-principal {principal} --group {name} "
            "--operation Read   or write mirror_offsets: false under kafka: in the stream's file",
            code="LW-3192",
        )
    if error.code() in (KafkaError.UNKNOWN_MEMBER_ID, KafkaError.NON_EMPTY_GROUP):
        return Refused(
            f"Consumer group {name} has members",
            why=f"connection {cluster.connection}, brokers {cluster.bootstrap}: another application consumes with it",
            next="give it another group, or write mirror_offsets: false under kafka: in the stream's file",
            code="LW-3193",
        )
    return None


def _login(cluster: Cluster, reason: str) -> SpecError:
    settings = cluster.settings
    return SpecError(
        f"Kafka refused the login of {settings.principal}",
        why=f"connection {cluster.connection}, {MECHANISM} {settings.mechanism}: {reason}",
        next=f"correct {USERNAME}, {PASSWORD} or {MECHANISM} in {cluster.where}",
        code="LW-3118",
    )


def _handshake(cluster: Cluster, reason: str) -> DependencyDown:
    """The error for a failed TLS handshake. It is retried: a certificate may be renewed at the broker."""
    settings = cluster.settings
    return DependencyDown(
        "The TLS handshake with Kafka failed",
        why=f"connection {cluster.connection}, {CA} {settings.ca or 'of the machine'}: {reason}",
        next=f"set {CA} in {cluster.where} to the certificate of the authority that signed the brokers' certificates "
        "(the stream retries by itself)",
        code="LW-3119",
    )


def _text(error: Any) -> str:
    return _TIMING.sub("", str(error.str()))
