"""Deploy: the only way a spec enters the registry."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from importlib import metadata

from sqlalchemy import Connection, func, select, text

from lakeward import __version__
from lakeward.platform.errors import SpecError
from lakeward.registry import changes, events, generations, streams
from lakeward.registry.schema import generations as generations_table
from lakeward.spec.deploy.plan import Accepted, Change, digest, plan
from lakeward.spec.model.stream import StreamSpec
from lakeward.spec.python import packages
from lakeward.spec.python.code import digest_of

_RUNS = {"starting", "healthy", "lagging", "stalled", "restarting", "stopping"}
_LOCK = 0x6C616B65  # one deploy at a time: generation numbers are consecutive


def accepted(connection: Connection) -> dict[str, Accepted]:
    """The deployed state: the accepted and the newest generation of every stream, retired streams included."""
    known = {stream.id: stream for stream in streams.all_streams(connection, removed=True)}
    highest = select(generations_table.c.stream, func.max(generations_table.c.generation)).group_by(
        generations_table.c.stream
    )
    newest = generations.of_streams(connection, {row[0]: row[1] for row in connection.execute(highest)})
    running = generations.of_streams(connection, {name: stream.generation for name, stream in known.items()})
    return {
        name: Accepted(
            generation=stream.generation,
            spec=running[name].spec,
            digest=running[name].digest,
            newest=newest[name].generation,
            newest_digest=newest[name].digest,
            pending=stream.pending_generation,
            should_run=stream.desired == "running" or stream.state in _RUNS,
            retired=stream.removed_at is not None,
        )
        for name, stream in known.items()
    }


def preview(connection: Connection, specs: Mapping[str, StreamSpec], retire: Collection[str] = ()) -> list[Change]:
    """What `deploy` would do; changes nothing.

    Raises:
        SpecError: a stream to retire is still declared, or is not deployed.
    """
    known = accepted(connection)
    for name in retire:
        if name in specs:
            raise SpecError(
                f"Stream {name} cannot be retired",
                why=f"It is still declared in conf/streams/{name}.yaml",
                next=f"remove the file first; to stop it only: lakeward streams stop {name}",
                code="LW-6002",
            )
        if name not in known or known[name].retired:
            names = ", ".join(sorted(stream for stream in known if not known[stream].retired)) or "none"
            raise SpecError(
                f"Stream {name!r} cannot be retired",
                why=f"It is not deployed. Deployed streams: {names}",
                next="lakeward deploy --plan",
                code="LW-6003",
            )
    return [_retired(change) if change.stream in retire else change for change in plan(known, specs)]


def _retired(change: Change) -> Change:
    """The change of a stream that is retired, in place of the words about one whose file is missing."""
    return replace(change, why="it is retired: it ends at a batch boundary, its table and its history stay")


def deploy(
    connection: Connection, specs: Mapping[str, StreamSpec], *, author: str, retire: Collection[str] = ()
) -> list[Change]:
    """Register the project's specs, in one transaction.

    A new stream is accepted and started, if it is enabled and has no schedule. A changed stream that does not run is
    accepted. A changed stream that runs is not touched: its new generation is pending. A stream without a file
    continues until it is in `retire`: then it is stopped and not listed any more; its history stays, and it may be
    deployed again.
    """
    connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": _LOCK})
    planned = preview(connection, specs, retire)
    for change in planned:
        if change.change == "removed":
            if change.stream in retire:
                streams.remove(connection, change.stream)
                _record(connection, change, author, "retired: its file was removed")
        else:
            _act(connection, change, specs[change.stream], author)
    return planned


def _act(connection: Connection, change: Change, spec: StreamSpec, author: str) -> None:
    name, number = change.stream, change.generation
    if change.act == "none":
        return
    if change.act == "drop-pending":
        streams.set_pending(connection, name, None)
        _record(connection, change, author, change.why)
        return
    if change.act in ("accept", "adopt"):
        start = spec.enabled and spec.trigger.schedule is None  # a stream with a schedule waits for it
        desired = ("running" if start else "stopped") if change.change == "new" else None
        streams.accept(connection, name, generation=number, driver=spec.driver, desired=desired)
    if change.act != "adopt":
        _add(connection, name, number, spec, author)
    if change.act == "pend":
        streams.set_pending(connection, name, number)
    _record(connection, change, author, f"generation {number} {'pending' if change.act == 'pend' else 'accepted'}")


def _add(connection: Connection, name: str, number: int, spec: StreamSpec, author: str) -> None:
    earlier = generations.get(connection, name, number - 1)
    generations.add(
        connection,
        stream=name,
        generation=number,
        spec=spec.document(),
        digest=digest(spec),
        sql=spec.transform.sql,
        code=_code(spec),
        versions=versions(),
        author=author,
        checkpoint=earlier.checkpoint if earlier else name,
    )


def _code(spec: StreamSpec) -> dict[str, str]:
    """Function -> digest of its modules; the requirements file -> digest of its packages."""
    functions = ((spec.transform.functions, spec.transform.code), ((str(spec.sink.python),), spec.sink.code))
    digests = {name: digest_of(code) for names, code in functions if code is not None for name in names}
    return digests | ({str(spec.requirements): packages.digest_of(spec.packages)} if spec.packages else {})


def versions() -> dict[str, str]:
    """Versions of the packages that determine the meaning of a spec."""
    installed = {"lakeward": __version__}
    for package in ("pyspark", "pyiceberg"):
        try:
            installed[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            continue
    return installed


def _record(connection: Connection, change: Change, author: str, sentence: str) -> None:
    changes.record(connection, "stream", change.stream, "deploy", author=author, comment=sentence, why=change.why)
    events.record(
        connection, "stream", change.stream, "deploy", f"{sentence} (by {author})", generation=change.generation
    )
