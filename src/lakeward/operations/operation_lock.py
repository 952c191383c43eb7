"""Operation lock of a stream: one operation at a time, renewed while its process lives, closed with the result."""

from __future__ import annotations

import secrets
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import timedelta
from typing import Any

from lakeward.operations.context import Context
from lakeward.operations.operation import Operation
from lakeward.operations.waiting import Waiting
from lakeward.platform.errors import DependencyDown, Refused, SpecError, TimedOut
from lakeward.registry import events, leases, operations, streams
from lakeward.registry.operations import Ticket
from lakeward.supervision import abandoned_operations

_SCOPE = "rebuild"
_TTL = timedelta(seconds=120)
_RENEW_S = 20.0


@contextmanager
def rebuild_lock(context: Context, stream: str) -> Iterator[None]:
    """Hold the rebuild lease of a stream. A second rebuild would fill a table that the first one swaps.

    Raises:
        Refused: another process rebuilds the stream.
    """
    token = secrets.token_hex(16)
    with context.connect() as connection:
        if leases.take(connection, _SCOPE, stream, token, context.holder, _TTL) is None:
            raise Refused(
                f"Stream {stream} is being rebuilt by another process",
                why=f"its lease was renewed less than {_TTL.total_seconds():.0f} s ago",
                next=f"wait until it ends; if it was killed, repeat the command after {_TTL.total_seconds():.0f} s",
                code="LW-2028",
            )
    with _renewed(context, lambda connection: leases.renew(connection, _SCOPE, [stream], token, _TTL)):
        try:
            yield
        except (Exception, KeyboardInterrupt):
            _release(context, stream, token)
            raise
        _release(context, stream, token)


@contextmanager
def operation_lock(
    context: Context, operation: Operation[Any], stream: str, arguments: Mapping[str, Any], detail: Callable[[], str]
) -> Iterator[Waiting]:
    """Hold the ticket of a stream for an operation, and record the result.

    A process that is killed does not close its ticket: the next operation starts the streams that it had stopped.

    Args:
        arguments: arguments of the request, for the record.
        detail: text that is recorded on success.

    Raises:
        Refused: another operation on the stream runs.
    """
    name, request = operation.name, operation.request
    with context.connect() as connection:
        ticket = operations.begin(
            connection,
            stream,
            name,
            author=context.author,
            holder=context.holder,
            token=secrets.token_hex(16),
            comment=request.comment,
            approved_by=None if request.approval is None else request.approval.by,
            **arguments,
        )
        abandoned_operations.resume(connection, ticket.abandoned)
        events.record(
            connection, "stream", stream, name, f"{context.author} asked to {name}", comment=request.comment
        )  # fmt: skip
    with _renewed(context, lambda connection: operations.renew(connection, ticket)):
        try:
            yield Waiting(context, ticket)
        except KeyboardInterrupt:
            _end(context, ticket, "failed", "interrupted; its request stays in effect")
            raise
        except Exception as error:
            _end(context, ticket, result_of(error), operation.failure(error))
            raise
        _end(context, ticket, "done", detail())


def result_of(error: Exception) -> str:
    """The recorded result of an error."""
    if isinstance(error, TimedOut):
        return "timed_out"
    return "refused" if isinstance(error, Refused | SpecError) else "failed"


@contextmanager
def _renewed(context: Context, renew: Callable[[Any], object]) -> Iterator[None]:
    """Renew at an interval: one batch or one verification may take longer than the time to live."""
    over = threading.Event()

    def work() -> None:
        while not over.wait(_RENEW_S):
            with suppress(DependencyDown), context.connect() as connection:
                renew(connection)

    threading.Thread(target=work, daemon=True, name="operation-renews").start()
    try:
        yield
    finally:
        over.set()


def _release(context: Context, stream: str, token: str) -> None:
    with suppress(DependencyDown), context.connect() as connection:  # else the lease expires
        leases.release(connection, _SCOPE, [stream], token)


def _end(context: Context, ticket: Ticket, result: str, detail: str) -> None:
    with suppress(DependencyDown), context.connect() as connection:  # else the ticket counts as abandoned
        operations.end(connection, ticket, result, detail)
        row = streams.find(connection, ticket.stream)
        if row is not None and result != "done":
            events.record(connection, "stream", ticket.stream, "operation", f"{result}: {detail}")
