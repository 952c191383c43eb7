"""`lakeward demo`: a year of New York flights through the whole stack, live or as a finite check."""

from __future__ import annotations

import json
import shlex
import signal
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from lakeward.cli.context import state
from lakeward.platform.errors import SpecError

if TYPE_CHECKING:
    from lakeward.demo.report import Report


def demo(
    check: Annotated[bool, typer.Option("--check", help="the finite form: land, kill, check, prove, stop")] = False,
    report: Annotated[Path | None, typer.Option(metavar="FILE", help="with --check: write the JSON here")] = None,
    seed: Annotated[int, typer.Option(help="decides the broken and late records, the kill and its moment")] = 1,
    records: Annotated[int, typer.Option(min=1_000, help="with --check: how many records are produced")] = 50_000,
    rate: Annotated[float | None, typer.Option(min=1.0, help="records a second")] = None,
    keep: Annotated[bool, typer.Option("--keep", help="with --check: leave the stack running for a look")] = False,
    patience: Annotated[float, typer.Option(min=10.0, help="with --check: seconds any one wait may take")] = 900.0,
) -> None:
    """Land a year of New York flights: start everything, produce until Ctrl-C, then stop everything.

    With --check: the same once, with the driver killed in the middle and bad rows planted; then every claim is proved
    from the broker. Exit code 0 only if all of them hold, 3 otherwise. It uses a home of its own, the folder check
    below --home, and removes it when all of them held; what it did not write itself it never removes.
    """
    if check:
        _check(report, seed, records, rate, keep, patience)
        return
    from lakeward.demo.live import live

    _end_well()
    live(state().project, state().home, state().output.note, seed=seed, per_second=rate)


def _end_well() -> None:
    """Handle a closed terminal and SIGTERM like Ctrl-C."""
    for ending in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(ending, signal.default_int_handler)


def _check(report: Path | None, seed: int, records: int, rate: float | None, keep: bool, patience: float) -> None:
    from lakeward.demo import own_home
    from lakeward.demo.check import ALERTS, FLIGHTS, HOURLY, Check, CheckOptions
    from lakeward.demo.stand import DemoStack
    from lakeward.platform.runtime import Home

    home = Home(state().home.root / "check")
    output = state().output
    stand = DemoStack(state().project, home, output.note)
    stand.require(FLIGHTS, HOURLY, ALERTS)
    if report is not None:
        _look_at_report(report)
    own_home.begin(home)
    demand = CheckOptions(seed, records, patience_s=patience)
    if rate is not None:
        demand = CheckOptions(seed, records, rate, patience)
    _end_well()
    done = None
    try:
        done = Check(stand, demand, output.note).run()
        written = _hand_over(done, report)  # before the stop: a failure there must not lose the report
    finally:
        if keep:
            output.note(f"left running: lakeward stack status --home {shlex.quote(str(home.root))}")
        else:
            stand.down()
            remaining = own_home.remove(home) if done is not None and done.ok else None
            if remaining is not None:
                output.note(f"{home.root} {remaining}: it is left as it is")
    if not done.ok:
        output.note(f"what is left for a look: {home.root}")
        raise typer.Exit(3)
    if not written:
        raise typer.Exit(1)


def _look_at_report(file: Path) -> None:
    """Check that the report can be written at the end.

    Raises:
        SpecError: the file cannot be written.
    """
    try:
        if file.exists():
            file.open("a").close()
        else:
            tempfile.TemporaryFile(dir=file.parent).close()
    except OSError as error:
        raise SpecError(
            "Cannot write the report",
            why=f"{file}: {error.strerror}",
            next="name a file in a writable folder: --report FILE",
            code="LW-1202",
        ) from None


def _hand_over(done: Report, file: Path | None) -> bool:
    """Write the report and print the summary. If it cannot be written, print it and return False."""
    output, document = state().output, done.document()
    summary = "\n".join(
        ["every claim holds" if done.ok else "NOT PROVED", *(f"  {problem}" for problem in done.problems)]
    )
    text = json.dumps(document, indent=2)
    try:
        if file is not None:
            file.write_text(text + "\n")
    except OSError as error:
        output.note(f"{file} cannot be written: {error.strerror}; the report is printed instead")
        output.either(document, f"{text}\n{summary}")
        return False
    output.either(document, summary)
    return True
