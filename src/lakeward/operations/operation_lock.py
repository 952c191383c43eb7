"""Whose turn it is: one rebuild of a stream at a time, and while it is stopped no other operation either."""

from __future__ import annotations

import secrets
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import timedelta
from typing import Any

from lakeward.operations.context import Site
from lakeward.operations.waiting import Waiting
from lakeward.platform.errors import DependencyDown, LakewardError, Refused
from lakeward.registry import events, leases, operations
from lakeward.registry.operations import Ticket
from lakeward.supervision import abandoned_operations

WORD = "rebuild"
_SCOPE = "rebuild"
_TTL = timedelta(seconds=120)
_RENEW_S = 20.0


@contextmanager
def alone(site: Site, stream: str) -> Iterator[None]:
    """Be the only one who fills a table for this stream: a second one would fill a table that is swapped meanwhile.

    Raises:
        Refused: somebody else does.
    """
    token = secrets.token_hex(16)
    with site.connect() as connection:
        if leases.take(connection, _SCOPE, stream, token, site.holder, _TTL) is None:
            raise Refused(
                f"Stream {stream} is being rebuilt by somebody else",
                why=f"whoever does it showed life less than {_TTL.total_seconds():.0f} s ago",
                next="wait for it; after a kill, the same command again when that time is over",
            )
    with _kept(site, lambda connection: leases.renew(connection, _SCOPE, [stream], token, _TTL)):
        try:
            yield
        except (Exception, KeyboardInterrupt):
            _release(site, stream, token)
            raise
        _release(site, stream, token)


@contextmanager
def operating(
    site: Site, stream: str, comment: str, word: str = WORD, done: str = "swapped", approved_by: str | None = None
) -> Iterator[Waiting]:
    """Hold the stream, show life while work takes long, and say how it ended.

    Args:
        word: the operation, as people read it.
        done: what is recorded when it was done.

    Whoever is killed inside ends nothing: the stream that was stopped is then started by the next to come.

    Raises:
        Refused: somebody else operates on the stream.
    """
    with site.connect() as connection:
        ticket = operations.begin(
            connection, stream, word, author=site.author, holder=site.holder, token=secrets.token_hex(16),
            comment=comment, approved_by=approved_by,
        )  # fmt: skip
        abandoned_operations.resume(connection, ticket.abandoned)
        events.record(connection, "stream", stream, word, f"{site.author} asked to {word}", comment=comment)
    with _kept(site, lambda connection: operations.renew(connection, ticket)):
        try:
            yield Waiting(site, ticket)
        except (Exception, KeyboardInterrupt) as error:
            told = f"{error.what}: {error.why}" if isinstance(error, LakewardError) else str(error) or "interrupted"
            _end(site, ticket, "refused" if isinstance(error, Refused) else "failed", told)
            raise
        _end(site, ticket, "done", done)


@contextmanager
def _kept(site: Site, renew: Callable[[Any], object]) -> Iterator[None]:
    """Renew now and then: one batch or one proof may take longer than a silent holder is taken for alive."""
    over = threading.Event()

    def work() -> None:
        while not over.wait(_RENEW_S):
            with suppress(DependencyDown), site.connect() as connection:
                renew(connection)

    threading.Thread(target=work, daemon=True, name="rebuild-renews").start()
    try:
        yield
    finally:
        over.set()


def _release(site: Site, stream: str, token: str) -> None:
    with suppress(DependencyDown), site.connect() as connection:  # else it lapses
        leases.release(connection, _SCOPE, [stream], token)


def _end(site: Site, ticket: Ticket, result: str, detail: str) -> None:
    with suppress(DependencyDown), site.connect() as connection:  # else it counts as abandoned, which is true
        operations.end(connection, ticket, result, detail)
