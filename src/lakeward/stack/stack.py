"""The embedded stack of one home, as the command line uses it."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Collection, Iterable
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from lakeward import jars
from lakeward.platform import ports
from lakeward.platform.errors import Refused, Unhealthy
from lakeward.platform.runtime import Home, Project, absent
from lakeward.stack import airflow_config, claims, down, external, groups, private, requirements, session, status, up
from lakeward.stack.external import ExternalServices
from lakeward.stack.site import DATABASES, REGISTRY_ROLE, StackContext
from lakeward.stack.state import DEFAULT_PORTS, LOCK, StackState, exclusive
from lakeward.stack.supervisor import Supervisor

SPARK = frozenset({"airflow", "connect", "checker"})
"""Groups that start Spark: its class archive is made before their first start."""


class Stack:
    """Starts, observes and stops the parts on this machine."""

    def __init__(self, project: Project, home: Home) -> None:
        self.project = project
        self.home = home

    def up(
        self,
        only: Iterable[str] | None = None,
        deploy: Callable[[], None] | None = None,
        say: Callable[[str], None] = lambda line: None,
    ) -> dict[str, Any]:
        """Start missing parts and return their addresses (contract §2).

        Raises:
            Unhealthy: a requirement of this machine is missing, or a part does not start.
            Refused: a jar is not the reviewed one, another `stack` command is running, or a supervisor runs here that
                is not recorded in `stack.json`.
        """
        requested = groups.resolve(only, groups.of(self.home))
        with exclusive(self.home):
            state = StackState.load(self.home)
            self._end_unrecorded(state)
            java = jars.find_java()
            requirements.check(self.home)
            jars.ensure(lambda name: say(f"fetching {name}"))
            if SPARK & requested:
                jars.archive.ensure(say)
            site = StackContext(self.project, self.home, self._ports(state), java, external=self.external)
            timings = up.Up(site, state, requested | self._running_groups(state), deploy, say).run()
        return describe(site, requested, timings)

    def use(
        self, services: ExternalServices, passwords: Path | None, say: Callable[[str], None] = lambda line: None
    ) -> dict[str, Any]:
        """Record the services that run elsewhere, and write the addresses of tasks and drivers. Starts nothing.

        Args:
            passwords: password file of PostgreSQL with the registry's line; None: what libpq reads.

        Raises:
            Refused: the home has a stack of its own, or uses another registry.
            SpecError: the settings name no catalog, or the role may not create the registry's tables.
            DependencyDown: the registry does not answer. Nothing is written then.
        """
        with exclusive(self.home):
            state = StackState.load(self.home)
            self._check_home(state, services)
            site = self.site(state)
            # Until a `stack up` here, its port may be another stack's: tasks would send the token there.
            known = {part: port for part, port in site.ports.items() if part != "connect" or part in state.parts}
            site = replace(site, ports=known, external=services)
            lake = site.runtime().lake
            if passwords is None:
                line = external.known_password(services, self.home)
            else:
                line = external.password_line(services, passwords)
            # A home that works keeps its password until the new one is known to work.
            with TemporaryDirectory(dir=private.folder(self.home.secrets)) as folder:
                tried = private.write(Path(folder) / self.home.pgpass.name, line)
                external.migrate(services, tried)
                tried.replace(self.home.pgpass)
            services.save(self.home)
            site.write()
            jars.ensure(lambda name: say(f"fetching {name}"))
        return {
            "home": self.home.root,
            "registry": services.registry,
            "catalog": {"name": lake.name, "uri": lake.properties.get("uri", "")},
            "checkpoints": site.runtime().checkpoints,
        }

    def down(self, stop_drivers: Callable[[], None] | None, say: Callable[[str], None]) -> dict[str, float]:
        """Stop everything; see `down.down`. A folder where no stack is known stays as it is."""
        begun = self.known or not absent(self.home.root / LOCK)
        with exclusive(self.home) if begun else nullcontext():
            took = down.down(self.home, stop_drivers, say)
            claims.claim(self.home.root, lambda claimed: {})
            return took

    @property
    def external(self) -> ExternalServices | None:
        """The services of this home that run elsewhere; None in the home of a whole stack."""
        return ExternalServices.load(self.home)

    @property
    def known(self) -> bool:
        """Whether a stack was ever started in this home."""
        return StackState.load(self.home) != StackState() or Supervisor(self.home).find() is not None

    def status(self) -> list[status.PartStatus]:
        """Every part, running or not."""
        state = StackState.load(self.home)
        return status.status(self.site(state), state)

    def pss_bytes(self) -> int:
        """Memory of the stack without the drivers."""
        return status.total_pss_bytes(StackState.load(self.home))

    def site(self, state: StackState | None = None) -> StackContext:
        """The context of the last start, with its ports."""
        known = state or StackState.load(self.home)
        ports_of = {**DEFAULT_PORTS, **known.ports}
        return StackContext(self.project, self.home, ports_of, jars.find_java(), external=self.external)

    def _check_home(self, state: StackState, services: ExternalServices) -> None:
        recorded = self.external
        if recorded is None and state != StackState():
            raise Refused(
                "This home has a stack of its own",
                why=f"the registry and the catalog of {self.home.root} are in the PostgreSQL of that stack",
                next=f"lakeward --home DIR {external.command(services).removeprefix('lakeward ')}",
                code="LW-7036",
            )
        if recorded is not None and recorded != services:
            raise Refused(
                "This home uses another registry",
                why=f"it is {recorded.registry}; drivers of its streams may run",
                next=f"name another home: --home DIR; if that database was moved: rm "
                f"{shlex.quote(str(self.home.root / external.FILE))}, then: {external.command(services)}",
                code="LW-7037",
            )

    def _end_unrecorded(self, state: StackState) -> None:
        """End a supervisor that a killed start did not record; it has started no part then.

        Raises:
            Refused: its parts run: `stack.json` was removed.
        """
        supervisor = Supervisor(self.home)
        found = None if state.running else supervisor.find()
        if found is None:
            return
        if supervisor.ending():
            down.wait_for_end(found)
        elif len(session.members(found)) > 1:
            raise Refused(
                "A running stack is not recorded in its home",
                why=f"supervisord is process {found.pid}; stack.json in {self.home.root} does not list it",
                next="lakeward stack down, then lakeward stack up",
                code="LW-7017",
            )
        else:
            session.end(session.members(found))

    def _running_groups(self, state: StackState) -> set[str]:
        # `up --only kafka` beside a running Airflow adds Kafka; it does not stop Airflow.
        return {group for group in state.parts if group in groups.GROUPS} if state.running else set()

    def _ports(self, state: StackState) -> dict[str, int]:
        """The recorded ports; for a stopped stack, ports that others use or claim are replaced."""
        if state.running:
            return {**DEFAULT_PORTS, **state.ports}

        known = {**DEFAULT_PORTS, **state.ports}
        own = groups.of(self.home)

        def choose(claimed: Collection[int]) -> dict[str, int]:
            chosen: dict[str, int] = {}
            for name, preferred in known.items():
                if name.partition("-")[0] in own:
                    chosen[name] = ports.choose(preferred, {*chosen.values(), *claimed})
            return chosen

        return {**known, **claims.claim(self.home.root, choose)}


def describe(site: StackContext, requested: Iterable[str], timings: dict[str, float]) -> dict[str, Any]:
    """The JSON of `stack up`."""
    shown = set(requested)
    document: dict[str, Any] = {"home": site.home.root}
    if "postgres" in shown:
        document["postgres"] = {
            "host": ports.HOST,
            "port": site.ports["postgres"],
            "user": REGISTRY_ROLE,
            "password_file": site.home.secrets / f"{REGISTRY_ROLE}.password",
            "pgpass": site.home.pgpass,
            "databases": sorted(DATABASES),
        }
    if "kafka" in shown:
        document["kafka"] = {"bootstrap": site.kafka}
    if "airflow" in shown:
        document["airflow"] = {
            "url": site.airflow,
            "user": airflow_config.ADMIN,
            "password_file": site.home.secrets / "airflow.password",
            "passwords_file": airflow_config.passwords_file_of(site),
        }
    if "connect" in shown:
        document["connect"] = {"remote": f"sc://{site.connect}", "token_file": site.connect_token}
    document["timings_s"] = timings
    return document


def unhealthy(parts: Iterable[status.PartStatus]) -> Unhealthy | None:
    """The error for parts that are not up; None if all are."""
    wrong = [part for part in parts if part.state != "up"]
    if not wrong:
        return None
    return Unhealthy(
        "The stack is not complete",
        why=", ".join(f"{part.name} is {part.state} (log: {part.log})" for part in wrong),
        next="lakeward stack up",
        code="LW-7016",
    )


__all__ = ["Stack", "Supervisor", "describe", "unhealthy"]
