"""Registry link of a driver: claims and renews leases, and reads the desired state, in a separate thread.

While the registry is down, the last desired state stays valid and streams with a position keep landing. The leases are
renewed when the registry is back.
"""

from __future__ import annotations

import secrets
import threading
import time
from collections.abc import Mapping
from contextlib import AbstractContextManager
from pathlib import Path

import structlog
from sqlalchemy import Connection, func, select

from lakeward.engine.assignment import Assignment, DesiredState
from lakeward.platform.errors import DependencyDown
from lakeward.platform.runtime import Launch
from lakeward.registry import backpressure, drivers, engine, leases, writer_pauses
from lakeward.registry.drivers import STUCK, Hosted, Plan
from lakeward.registry.leases import STREAM_TTL

_log = structlog.get_logger(__name__)

LOOK_S = 1.0
RENEW_S = 2.0
TURN_S = 60.0
"""A control loop without a turn for this long hangs; supervision may then kill the process."""


class RegistryLink:
    """Registry link of one driver.

    Args:
        launch: this launch, with its token.
        url: address of the registry.
        holder: host and process, shown to people as the holder of the leases.
    """

    def __init__(self, launch: Launch, url: str, holder: str) -> None:
        self._launch = launch
        self._url = url
        self._holder = holder
        self._process = secrets.token_hex(8)
        self._stop = threading.Event()
        self._looked = threading.Condition()
        self._desired: DesiredState | None = None
        self._taken = 0.0
        self._until: dict[str, float] = {}
        self._hosted: frozenset[str] = frozenset()
        self._plans: dict[tuple[str, int], Plan] = {}
        self._renewed = 0.0
        self._away_since: float | None = None
        self._thread = threading.Thread(target=self._run, name="registry", daemon=True)
        self.state = "launching"
        self.spark_ui: str | None = None
        self.turned: float | None = None
        """Time of the control loop's last turn (monotonic); shows from outside whether the loop hangs."""
        self.pausing: frozenset[str] = frozenset()
        """Streams that pause at their gate for maintenance, between two batches."""
        self._recorded_pauses: frozenset[str] = frozenset()
        self.busy: frozenset[str] = frozenset()
        """Streams whose query was started and not stopped yet; their leases are kept whatever the desired state."""

    @property
    def token(self) -> str:
        """Token of this launch."""
        return self._launch.token

    @property
    def pgpass(self) -> Path | None:
        return self._launch.runtime.pgpass

    def connect(self) -> AbstractContextManager[Connection]:
        """Open a transaction."""
        return engine.connect(self._url, self.pgpass)

    def desired_state(self) -> tuple[DesiredState | None, float]:
        """The newest desired state and when it was requested (monotonic)."""
        with self._looked:
            return self._desired, self._taken

    def leased(self, stream: str) -> bool:
        """Whether this driver's lease of the stream is live; by the local clock it ends before the database's."""
        with self._looked:
            return self._until.get(stream, 0.0) > time.monotonic()

    def claim(self, timeout_s: float) -> bool:
        """Claim the launch, and take the driver's own lease.

        False if a newer launch exists, another process claimed this one, or another process holds the lease.

        Raises:
            DependencyDown: the registry cannot be reached.
        """
        end = time.monotonic() + timeout_s
        while True:
            with engine.connect(self._url, self.pgpass) as connection:
                launch = self._launch
                if not drivers.claim(connection, launch.driver, launch.token, self._process, self._holder):
                    return False
                if self._take(connection, "driver", self._launch.driver):
                    return True
            if time.monotonic() > end:
                return False
            time.sleep(0.5)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def refresh(self, timeout_s: float = 5.0) -> None:
        """Wait for a desired state that was requested after this call."""
        requested_at = time.monotonic()
        with self._looked:
            self._looked.wait_for(lambda: self._taken > requested_at, timeout_s)

    def close(self) -> None:
        """Stop, and release the leases."""
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join(timeout=15)
        try:
            with engine.connect(self._url, self.pgpass) as connection:
                leases.release(connection, "stream", sorted(self._hosted), self._launch.token)
                leases.release(connection, "driver", [self._launch.driver], self._launch.token)
        except DependencyDown:
            _log.info("leases not released, registry unreachable")

    def _run(self) -> None:
        while not self._stop.is_set():
            began = time.monotonic()
            try:
                with engine.connect(self._url, self.pgpass) as connection:
                    state, held = self._read(connection, began)
            except DependencyDown as error:
                self._registry_down(error)
            except Exception:  # noqa: BLE001  # named boundary: a dead thread would let every lease expire silently
                _log.exception("registry not readable")
            else:
                self._registry_up()
                self._note(held, began)  # a lease counts only after the transaction is committed
                with self._looked:
                    self._desired, self._taken = state, began
                    self._looked.notify_all()
            self._stop.wait(max(0.05, LOOK_S - (time.monotonic() - began)))

    def _read(self, connection: Connection, began: float) -> tuple[DesiredState, set[tuple[str, str]]]:
        """The desired state, and the leases that this driver holds once the transaction is committed."""
        name, token = self._launch.driver, self._launch.token
        now = connection.execute(select(func.now())).scalar_one()
        row = drivers.find(connection, name)
        held: set[tuple[str, str]] = set()
        if row is None or row.token != token:
            return DesiredState(now, fenced=True), held
        hosted = {stream.id: stream for stream in drivers.hosted(connection, name)}
        self._hosted = frozenset(hosted)
        if began - self._renewed >= RENEW_S:
            if not drivers.beat(connection, name, token, state=self._reported_state(), spark_ui=self.spark_ui):
                return DesiredState(now, fenced=True), held
            held = self._renew(connection, began)
        ready = {stream.id: stream for stream in hosted.values() if _ready(stream)}
        held -= {("stream", stream) for stream in self._give_back(connection, frozenset(ready))}
        later = {stream.id for stream in ready.values() if stream.run_after is not None and stream.run_after > now}
        run = {stream: hosted_stream for stream, hosted_stream in ready.items() if stream not in later}
        for stream in sorted(run):
            known = ("stream", stream) in held or self.leased(stream)
            if not known and self._take(connection, "stream", stream):
                held.add(("stream", stream))
        assignments = self._assignments(connection, run)
        pausing, slowed = self._maintenance_windows(connection), backpressure.current(connection)
        state = DesiredState(now, assignments, frozenset(later), frozenset(hosted), windows=pausing, pressures=slowed)
        return state, held

    def _maintenance_windows(self, connection: Connection) -> dict[str, str]:
        """Record which streams pause for maintenance; returns the open maintenance windows."""
        pausing = self.pausing
        ended = sorted(self._recorded_pauses - pausing)
        if ended:
            leases.release(connection, writer_pauses.RESTS, ended, self._launch.token)
        for stream in sorted(pausing):
            self._take(connection, writer_pauses.RESTS, stream)
        self._recorded_pauses = pausing
        return writer_pauses.requested(connection)

    def _reported_state(self) -> str:
        """State of the driver; `stuck` while the control loop hangs, e.g. in a call to the JVM."""
        hangs = self.turned is not None and time.monotonic() - self.turned > TURN_S
        return STUCK if hangs else self.state

    def _renew(self, connection: Connection, began: float) -> set[tuple[str, str]]:
        """Renew all leases; take the driver's own lease again if its row was removed by hand."""
        name, token = self._launch.driver, self._launch.token
        held = leases.renew_all(connection, token, STREAM_TTL)
        if ("driver", name) not in held:
            self._take(connection, "driver", name)
        self._renewed = began
        return held

    def _assignments(self, connection: Connection, run: Mapping[str, Hosted]) -> dict[str, Assignment]:
        """The streams to run with their specs. A spec never changes, so each is read once."""
        keys = {(stream.id, stream.generation) for stream in run.values()}
        self._plans = {key: plan for key, plan in self._plans.items() if key in keys}
        self._plans |= drivers.plans(connection, keys - self._plans.keys())
        return {
            stream: Assignment(
                stream,
                plan.generation,
                plan.spec,
                self._launch.runtime.checkpoint_of(plan.checkpoint),
                hosted_stream.query_id,
            )
            for stream, hosted_stream in run.items()
            if (plan := self._plans.get((stream, hosted_stream.generation))) is not None
        }

    def _give_back(self, connection: Connection, ready: frozenset[str]) -> list[str]:
        """Release the leases of ended streams that are not to run here: it shows others that the query has ended."""
        with self._looked:
            ended = sorted(set(self._until) - ready - self.busy)
            for stream in ended:
                del self._until[stream]
        if ended:
            leases.release(connection, "stream", ended, self._launch.token)
        return ended

    def _take(self, connection: Connection, scope: str, name: str) -> bool:
        taken = leases.take(connection, scope, name, self._launch.token, self._holder, STREAM_TTL)
        return taken is not None

    def _note(self, held: set[tuple[str, str]], requested_at: float) -> None:
        until = requested_at + STREAM_TTL.total_seconds()
        with self._looked:
            for scope, name in held:
                if scope == "stream":
                    self._until[name] = until

    def _registry_down(self, error: DependencyDown) -> None:
        if self._away_since is None:
            self._away_since = time.monotonic()
            _log.warning("registry unreachable", why=error.why)

    def _registry_up(self) -> None:
        if self._away_since is not None:
            _log.info("registry reachable again", away_s=round(time.monotonic() - self._away_since, 1))
            self._away_since = None


def _ready(stream: Hosted) -> bool:
    return stream.desired == "running" and stream.blocked is None and stream.removed_at is None
