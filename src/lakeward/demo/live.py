"""`lakeward demo`: starts the stack, produces flights until Ctrl-C, and stops the stack."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, suppress

from rich.console import Console
from rich.live import Live

from lakeward.demo import flights
from lakeward.demo.lake import DemoLake
from lakeward.demo.producer import Sender
from lakeward.demo.stand import DemoStack
from lakeward.demo.summary import DemoSummary, summarise
from lakeward.demo.view import board, line
from lakeward.platform.errors import LakewardError
from lakeward.platform.runtime import Home, Project

PER_SECOND = 300.0
"""Records per second: a year of flights in about 19 minutes; then the next year follows."""
_POLL_S = 2.0
_LINE_EVERY = 5  # polls between two lines without a terminal


def live(
    project: Project, home: Home, say: Callable[[str], None], *, seed: int = 1, per_second: float | None = None
) -> None:
    """Run until Ctrl-C or until the producer fails; then stop the stack.

    Raises:
        LakewardError: a file of the project is invalid, a part did not start, or Kafka rejected the flights.
    """
    stand = DemoStack(project, home, say)
    stand.require()
    try:
        say("starting PostgreSQL, Kafka, a warm Spark and Airflow; Ctrl-C stops everything")
        stand.up()
        with _producing(stand, seed, per_second or PER_SECOND) as (sender, failed):
            _watch(stand, sender, failed, say)
    except KeyboardInterrupt:
        say("stopping: streams at the end of their batch, then the stack")
    finally:
        stand.down()


@contextmanager
def _producing(stand: DemoStack, seed: int, per_second: float) -> Iterator[tuple[Sender, list[LakewardError]]]:
    """Send the flights of one year after another in a thread; its error is added to the list."""
    sender, stop = Sender(stand.bootstrap, "flights"), threading.Event()
    failed: list[LakewardError] = []

    def send() -> None:
        try:
            records = flights.replay(flights.load(), seed=seed, laps=None)
            sender.send(records, per_second=per_second, stop=stop)
        except LakewardError as error:
            failed.append(error)

    thread = threading.Thread(target=send, name="producer", daemon=True)
    thread.start()
    try:
        yield sender, failed
    finally:
        stop.set()
        thread.join(timeout=30)


def _watch(stand: DemoStack, sender: Sender, failed: list[LakewardError], say: Callable[[str], None]) -> None:
    """Show the progress until Ctrl-C."""
    console = Console(stderr=True)
    lake, airflow = DemoLake(stand.runtime), stand.airflow
    pause = threading.Event()
    screen = Live(console=console, refresh_per_second=2, transient=False) if console.is_terminal else None
    polls = 0
    with screen or nullcontext():
        while not failed:
            summary: DemoSummary | None = None
            with suppress(LakewardError):  # the registry may be down for a moment; the next poll follows
                summary = summarise(stand, lake)
            if summary is not None and screen is not None:
                screen.update(
                    board(summary, sent=sender.total, url=airflow.url, user=airflow.user, password=airflow.password)
                )
            elif summary is not None and polls % _LINE_EVERY == 0:
                say(line(summary, sent=sender.total))
            if screen is None and polls == 0:
                say(f"Airflow  {airflow.url}   user  {airflow.user}   password  {airflow.password}")
            polls += 1
            pause.wait(_POLL_S)
    raise failed[0]
