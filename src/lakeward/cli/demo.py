"""`lakeward demo`: a year of New York flights through everything, live or as a finite proof."""

from __future__ import annotations

import json
import shutil
import signal
from pathlib import Path
from typing import Annotated

import typer

from lakeward.cli.context import state
from lakeward.errors import Refused


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
    from the broker. Exit code 0 only if all of them hold, 3 otherwise. It uses a home of its own below --home.
    """
    if check:
        _check(report, seed, records, rate, keep, patience)
        return
    from lakeward.demo.live import live

    _end_well()
    live(state().project, state().home, state().output.note, seed=seed, per_second=rate)


def _end_well() -> None:
    """A closed terminal and a kill stop everything too, as Ctrl-C does."""
    for ending in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(ending, signal.default_int_handler)


def _check(report: Path | None, seed: int, records: int, rate: float | None, keep: bool, patience: float) -> None:
    from lakeward.demo.check import Check, Wanted
    from lakeward.demo.stand import Stand
    from lakeward.runtime import Home
    from lakeward.stack.state import StackState

    home = Home(state().home.root / "check")
    if StackState.load(home).running:
        raise Refused(
            "A checked demo still runs here",
            why=f"its stack stands in {home.root}",
            next=f"lakeward stack down --home {home.root}",
        )
    if home.root.exists():
        shutil.rmtree(home.root)
    output = state().output
    stand = Stand(state().project, home, output.note)
    wanted = Wanted(seed, records, patience_s=patience)
    if rate is not None:
        wanted = Wanted(seed, records, rate, patience)
    _end_well()
    done = None
    try:
        done = Check(stand, wanted, output.note).run()
    finally:
        if keep:
            output.note(f"left running: lakeward stack status --home {home.root}")
        else:
            stand.down()
            if done is not None and done.ok:
                shutil.rmtree(home.root)
    document = done.document()
    if report is not None:
        report.write_text(json.dumps(document, indent=2) + "\n")
    summary = "\n".join(["every claim holds" if done.ok else "NOT PROVED", *(f"  {each}" for each in done.problems)])
    output.either(document, summary)
    if not done.ok:
        output.note(f"what is left for a look: {home.root}")
        raise typer.Exit(3)
