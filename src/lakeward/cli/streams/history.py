"""`lakeward streams events|logs|threads|batches|progress|ui`: history of a stream, from the registry and log files."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from lakeward.cli.context import state
from lakeward.cli.streams.group import Lines, Stream, app
from lakeward.platform.errors import LakewardError, SpecError, expect

if TYPE_CHECKING:
    from lakeward.registry.drivers import Driver

Since = Annotated[
    str | None,
    typer.Option(metavar="TIME", help="nothing older: 2h, or 2026-11-21T03:10:00Z"),
]
Grep = Annotated[str | None, typer.Option(metavar="TEXT", help="only lines with this text, ignoring case")]


@app.command()
def events(stream: Stream, lines: Lines = 30, since: Since = None) -> None:
    """The timeline of a stream and of its driver, oldest first."""
    from lakeward.cli.streams.text import timeline
    from lakeward.registry import events as recorded
    from lakeward.registry import streams

    young = _moment(since)
    with state().registry() as connection:
        row = streams.get(connection, stream)
        entries = recorded.newest(connection, "stream", stream, lines)
        entries += recorded.newest(connection, "driver", row.driver, lines)
    entries = [entry for entry in entries if young is None or entry.at >= young]
    entries = sorted(entries, key=lambda entry: (entry.at, entry.id))[-lines:]
    shown = [entry.as_json() for entry in entries]
    state().output.either({"stream": stream, "events": shown}, timeline(shown))


@app.command()
def logs(stream: Stream, lines: Lines = 50, since: Since = None, grep: Grep = None) -> None:
    """The newest log lines of a stream's driver that concern it, masked."""
    from lakeward.supervision import launch_log
    from lakeward.telemetry.tail import tail, text

    driver = _driver(stream)
    log = expect(driver.log, "the log of a driver that is here")
    if launch_log.on_cluster(driver):
        _logs_of_cluster(driver, log, stream, lines, _moment(since), grep)
        return
    file, found_lines = tail(Path(log), stream, lines, since=_moment(since), grep=grep)
    if file is None:
        raise LakewardError(
            f"The log of driver {driver.name} is missing",
            why=f"{log} has no log file",
            next=f"lakeward streams events {stream}",
            code="LW-1228",
        )
    state().output.note(str(file))
    data = {"stream": stream, "driver": driver.name, "file": file, "lines": found_lines}
    state().output.either(data, "\n".join(text(entry) for entry in found_lines))


def _logs_of_cluster(
    driver: Driver, place: str, stream: str, lines: int, since: datetime | None, grep: str | None
) -> None:
    """The end of a log that is on a machine of the cluster: the registry has a copy."""
    from lakeward.registry import launches
    from lakeward.telemetry.tail import of_text, text

    with state().registry() as connection:
        log = launches.log_tail(connection, driver.token)
    found_lines = of_text(log or "", stream, lines, since=since, grep=grep)
    where = f"{place} on {driver.host}" if place else f"with its submission on {driver.host}"
    state().output.note(f"The end of driver.log, from the registry; the whole file is in {where}")
    data = {"stream": stream, "driver": driver.name, "file": None, "lines": found_lines}
    state().output.either(data, "\n".join(text(entry) for entry in found_lines))


@app.command()
def threads(
    stream: Stream,
    now: Annotated[bool, typer.Option("--now", help="take one now; the driver runs on")] = False,
) -> None:
    """The newest thread dump of a stream's driver: what hung, or, with --now, what it does at this moment."""
    from lakeward.supervision import launch_dump
    from lakeward.supervision.reconcile import backend_of

    driver = _driver(stream)
    if now and not launch_dump.take(state().registry, backend_of(state().runtime), driver):
        raise LakewardError(
            f"No thread dump of driver {driver.name}",
            why="it does not run, or did not answer",
            next=f"lakeward streams status {stream}",
            code="LW-1296",
        )
    with state().registry() as connection:
        found = launch_dump.newest(connection, driver)
    if found is None:
        raise LakewardError(
            f"No thread dump of driver {driver.name} is recorded",
            why="a dump is taken when a batch, a start or the driver hangs",
            next=f"lakeward streams threads {stream} --now",
            code="LW-1297",
        )
    state().output.note(f"Taken at {found.at:%Y-%m-%d %H:%M:%S} UTC; {found.file or 'from the registry'}")
    data = {"stream": stream, "driver": driver.name, "at": found.at, "file": found.file, "text": found.text}
    state().output.either(data, found.text)


@app.command()
def batches(stream: Stream, lines: Lines = 20) -> None:
    """The newest batches a stream landed, with their offsets, oldest first."""
    from lakeward.cli.streams.text import batches as batches_text
    from lakeward.registry import batches as recorded
    from lakeward.registry import streams
    from lakeward.supervision.report import late

    with state().registry() as connection:
        streams.get(connection, stream)
        newest = recorded.newest(connection, stream, lines)[::-1]
        batches_ = late.of_batches(connection, stream, newest)
    shown = [{name: value for name, value in entry.items() if name != "stream"} for entry in batches_]
    cost = recorded.core_s_per_million(newest)
    state().output.either({"stream": stream, "core_s_per_million": cost, "batches": shown}, batches_text(shown, cost))


@app.command()
def progress(stream: Stream) -> None:
    """Spark's newest progress report of a stream, unchanged, and the driver's measurements."""
    import json

    from lakeward.registry import observations, streams

    with state().registry() as connection:
        streams.get(connection, stream)
        seen = observations.latest(connection).get(stream)
    if seen is None or seen.progress is None:
        raise LakewardError(
            f"Stream {stream} has no progress report yet",
            why="Spark reports progress after a batch",
            next=f"lakeward streams status {stream}",
            code="LW-1229",
        )
    data = {
        "stream": stream,
        "at": seen.at,
        "age_s": round(seen.age_s, 1),
        "query_state": seen.query_state,
        "progress": seen.progress,
        "watch": seen.watch,
    }
    text = {"progress": seen.progress, "watch": seen.watch}
    state().output.either(data, json.dumps(text, indent=2, ensure_ascii=False))


@app.command()
def ui(
    stream: Stream,
    launch: Annotated[
        int, typer.Option(min=0, help="0: the newest launch with an event log, 1: the one before, ...")
    ] = 0,
    port: Annotated[int, typer.Option(help="on this machine; default: a free one")] = 0,
) -> None:
    """Serve the Spark UI of a stream's driver until Ctrl-C; of an ended driver from its event log."""
    from lakeward.platform import ports
    from lakeward.supervision import spark_history

    driver = _driver(stream)
    if launch == 0 and not driver.ended and driver.spark_ui:
        state().output.show({"stream": stream, "driver": driver.name, "url": driver.spark_ui, "live": True})
        return
    launches = spark_history.launches(state().runtime.drivers, driver.name)
    if len(launches) <= launch:
        raise LakewardError(
            f"No event log of driver {driver.name} for launch {launch}",
            why=f"{len(launches)} launches with an event log are in {state().runtime.drivers / driver.name}",
            next=f"lakeward streams logs {stream}",
            code="LW-1230",
        )
    state().output.note("Starting Spark's history server")
    with spark_history.serve(launches[launch], port or ports.any_free()) as server:
        state().output.show(
            {"stream": stream, "driver": driver.name, "url": server.url, "live": False, "launch": launches[launch].name}
        )
        state().output.note("Ctrl-C ends it")
        server.process.wait()


def _driver(stream: str) -> Driver:
    """The newest launch of a stream's driver, with a log.

    Raises:
        SpecError: it was never launched.
    """
    from lakeward.registry import drivers, streams

    with state().registry() as connection:
        row = streams.get(connection, stream)
        driver = drivers.find(connection, row.driver)
    if driver is None or driver.log is None:
        raise SpecError(
            f"Stream {stream} has no log yet",
            why=f"driver {row.driver} was never launched",
            next=f"lakeward streams start {stream}",
            code="LW-1231",
        )
    return driver


def _moment(since: str | None) -> datetime | None:
    """The time of `--since`: a duration back from now, or a time.

    Raises:
        SpecError: it is neither.
    """
    from lakeward.spec.model.types import Duration

    if since is None:
        return None
    try:
        return datetime.now(UTC) - timedelta(seconds=Duration(since).seconds)
    except ValueError:
        pass
    try:
        moment = datetime.fromisoformat(since.replace("Z", "+00:00"))
    except ValueError:
        raise SpecError(
            f"Cannot read --since {since}",
            why="it is neither a duration nor a time",
            next="write it like 90s, 2h or 2026-11-21T03:10:00Z",
            code="LW-1232",
        ) from None
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)
