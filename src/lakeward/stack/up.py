"""`stack up`: start missing parts in dependency order, independent ones in parallel."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Mapping
from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from datetime import UTC, datetime
from importlib.metadata import version

from lakeward.platform.errors import LakewardError, expect
from lakeward.registry import engine
from lakeward.stack import airflow_config, airflow_parts, airflow_pool, down, external, groups, session, waiting
from lakeward.stack.part import Part
from lakeward.stack.services import PostgresPart
from lakeward.stack.site import StackContext
from lakeward.stack.state import StackState
from lakeward.stack.supervisor import Observed, Supervisor


@dataclass
class Timings:
    """Duration of each step in seconds, printed as a line."""

    say: Callable[[str], None]
    seconds: dict[str, float] = field(default_factory=dict)

    def took(self, step: str, since: float) -> None:
        """Record and print a step that began at monotonic time `since`."""
        self.seconds[step] = round(time.monotonic() - since, 2)
        self.say(f"{step:<22} {self.seconds[step]:6.1f} s")


def critical_path(seconds: Mapping[str, float]) -> list[str]:
    """The chain of dependent steps that took longest."""
    airflow = [step for step in seconds if step.startswith("airflow-") and step != "airflow-database"]
    ends = sorted(airflow, key=seconds.__getitem__)[-1:]
    chains = (
        ["postgres", "airflow-database", *ends],
        ["postgres", "deploy"],
        ["kafka"],
        ["connect"],
        ["postgres", "checker"],
    )
    known = [[step for step in chain if step in seconds] for chain in chains]
    return max(known, key=lambda chain: sum(seconds[step] for step in chain))


class Up:
    """One `stack up`.

    Args:
        site: the context of the stack.
        state: the recorded state; saved after steps.
        requested: groups to run.
        deploy: deploys the project's specs into the registry, or None; runs in parallel with Airflow's start.
        say: prints one line.
    """

    def __init__(
        self,
        site: StackContext,
        state: StackState,
        requested: Collection[str],
        deploy: Callable[[], None] | None,
        say: Callable[[str], None],
    ) -> None:
        self.site = site
        self.state = state
        self.supervisor = Supervisor(site.home)
        self.parts = groups.parts(site, requested)
        self.deploy = deploy
        self.timings = Timings(say)
        self._cancelled = threading.Event()

    def run(self) -> dict[str, float]:
        """Start missing parts; returns the seconds of each step.

        Raises:
            LakewardError: a part did not start; the others continue to run.
        """
        begin = time.monotonic()
        self._supervise()
        with ThreadPoolExecutor(max_workers=8, thread_name_prefix="up") as pool:
            try:
                self._start_all(pool)
            except BaseException:
                self._cancelled.set()
                raise
        self.timings.took("total", begin)
        path = critical_path(self.timings.seconds)
        spent = " + ".join(f"{step} {self.timings.seconds[step]:.1f}" for step in path)
        self.timings.say(f"critical path: {spent} = {sum(self.timings.seconds[step] for step in path):.1f} s")
        return self.timings.seconds

    def _supervise(self) -> None:
        """Write the configuration of the parts, and start or reload the supervisor."""
        self.site.write()
        if any(part.group == "airflow" for part in self.parts):
            airflow_config.write(self.site)
        self.supervisor.write(self.parts)
        if self.state.running and self.supervisor.ending():
            down.wait_for_end(expect(self.state.supervisor, "the supervisor's process"))
        if self.state.running:
            self.supervisor.reload()
        else:
            if self.state.supervisor is not None:
                # A killed supervisor leaves its parts running, without restarts and without logs.
                session.end(session.members(self.state.supervisor))
            self.state.supervisor = self.supervisor.start()
        self.state.ports = self.site.ports
        self.state.parts = sorted({part.group for part in self.parts})
        self.state.save(self.site.home)

    def _start_all(self, pool: ThreadPoolExecutor) -> None:
        first: Future[None] | None = None
        postgres = next((part for part in self.parts if isinstance(part, PostgresPart)), None)
        if postgres is not None:
            first = pool.submit(self._postgres, postgres)
        elif self.site.external is not None:
            first = pool.submit(external.migrate, self.site.external, self.site.home.pgpass)
        rest = [part for part in self.parts if part.group not in {"postgres", "airflow", "checker"}]
        running = [pool.submit(self._start, part) for part in rest]
        airflow = [part for part in self.parts if part.group == "airflow"]
        if first is not None:
            first.result()
            running += [pool.submit(self._start, part) for part in self.parts if part.group == "checker"]
            if airflow:
                running.append(pool.submit(self._airflow, airflow))
            if self.deploy is not None:
                begin = time.monotonic()
                self.deploy()
                self.timings.took("deploy", begin)
        done, _ = wait(running, return_when=FIRST_EXCEPTION)
        for future in done:
            future.result()

    def _postgres(self, part: PostgresPart) -> None:
        begin = time.monotonic()
        if not part.server.data.exists() and self.state.airflow_database:
            # Recorded before the new cluster exists: a start that is killed must not take it for a migrated one.
            self.state.airflow_database = ""
            self.state.save(self.site.home)
        self._launch(part)
        part.populate()
        engine.migrate(self.site.home.registry_url_file.read_text().strip(), self.site.home.pgpass)
        self.timings.took(part.name, begin)

    def _airflow(self, parts: list[Part]) -> None:
        begin = time.monotonic()
        installed = version("apache-airflow")
        if self.state.airflow_database != installed:
            airflow_parts.migrate(self.site)
            self.state.airflow_database = installed
            self.state.save(self.site.home)
            self.timings.took("airflow-database", begin)
        with ThreadPoolExecutor(max_workers=len(parts), thread_name_prefix="airflow") as pool:
            for future in [pool.submit(self._start, part) for part in parts]:
                future.result()
        airflow_pool.ensure(self.site)

    def _start(self, part: Part) -> None:
        begin = time.monotonic()
        self._launch(part)
        self.timings.took(part.name, begin)

    def _launch(self, part: Part) -> None:
        observed = self._settled(part)
        if observed is not None and observed.state == "RUNNING":
            since = observed.started
        else:
            part.prepare()
            since = datetime.now(UTC)
            self.supervisor.launch(part.name)
        process = expect(self.state.supervisor, "the supervisor's process")
        try:
            waiting.wait(part, self.supervisor, since, self._cancelled, process)
        except LakewardError:
            self._cancelled.set()
            raise

    def _settled(self, part: Part) -> Observed | None:
        """The part, once it does not stop any more: a `stack down` may have been killed, and supervisord starts nothing
        that is stopping. It kills what does not end in time."""
        while True:
            observed = self.supervisor.observe().get(part.name)
            if observed is None or observed.state != "STOPPING" or self._cancelled.wait(waiting.POLL_S):
                return observed
