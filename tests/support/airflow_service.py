"""A real Airflow for tests: the embedded stack's own configuration, its four processes, its REST API.

The streams are real rows of a real registry; only their driver is a small program that keeps the launch contract
(`small_driver.py`), so that a test of Airflow needs no Spark.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx
import pytest
from log_lines import of_entry
from sqlalchemy import Connection

from lakeward import jars
from lakeward.connectors.iceberg.catalog import create_schema
from lakeward.platform import ports
from lakeward.platform.runtime import Home, Project, Runtime
from lakeward.registry import drivers, engine, generations, incidents, streams
from lakeward.registry.drivers import Driver
from lakeward.registry.streams import Stream
from lakeward.stack import airflow_config, airflow_parts, airflow_pool, private
from lakeward.stack.site import StackContext
from lakeward.supervision.backends.base import Life
from lakeward.supervision.backends.identity import life
from lakeward.supervision.backends.local import LocalBackend

REPOSITORY = Path(__file__).parents[2]
SMALL_DRIVER = Path(__file__).parent / "small_driver.py"
OTHER_DAGS = Path(__file__).parent / "other_dags"
PARTS = (
    airflow_parts.ApiServer,
    airflow_parts.Scheduler,
    airflow_parts.DagProcessor,
    airflow_parts.Triggerer,
)

LOOKS_S = 1.0
"""Between two looks of a wait: a look is a request to the API server, which cost more than the tasks waited for."""

SCHEDULE = "0 0 29 2 *"
STREAM = """
owner: ops
source:
  kafka: {topics: [flights], max_offsets_per_trigger: 1000}
decode: {json: "year INT"}
sink:
  iceberg: {table: nyc.ID}
trigger: {every: 10s}
resources: {driver: DRIVER}
"""


def _client() -> httpx.Client:
    return httpx.Client(timeout=120, trust_env=False)  # a busy machine may keep the API server from answering a while


@dataclass
class AirflowService:
    """A migrated Airflow with Lakeward's Dags; its processes run once `start` was called."""

    site: StackContext
    processes: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)
    token: str = ""
    http: httpx.Client = field(default_factory=_client)
    """One for all calls: to make one costs a hundred times as much as a call."""

    @property
    def home(self) -> Home:
        return self.site.home

    @property
    def runtime(self) -> Runtime:
        return self.site.runtime()

    @property
    def url(self) -> str:
        return self.site.airflow

    def environment(self) -> dict[str, str]:
        return airflow_parts.environment(self.site) | {
            "PYTHONWARNINGS": "ignore",
            # No test changes a Dag file: each is parsed once, and not every minute in a process of its own.
            "AIRFLOW__DAG_PROCESSOR__MIN_FILE_PROCESS_INTERVAL": "3600",
            "LAKEWARD_DRIVER_WRAPPER": f"{sys.executable} {SMALL_DRIVER}",
        }

    def registry(self) -> Any:
        """One transaction on the registry."""
        return engine.connect(self.home.registry_url_file.read_text().strip(), self.home.pgpass)

    def airflow(self, *arguments: str, timeout: float = 120) -> subprocess.CompletedProcess[str]:
        """Run the `airflow` program."""
        return subprocess.run(
            [airflow_parts.airflow_binary(), *arguments],
            env=self.environment(),
            cwd="/",
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
        )

    # -- processes ------------------------------------------------------------------------------------------------
    def start(self, *names: str) -> None:
        """Start components (all when none is named) and wait until each is well."""
        since = datetime.now(UTC)
        parts = [part(self.site) for part in PARTS if not names or part.name in names]
        for part in parts:
            log = self.home.logs / f"{part.name}.log"
            with log.open("ab") as sink:
                self.processes[part.name] = subprocess.Popen(
                    part.program().command,
                    env=self.environment(),
                    cwd="/",
                    stdin=subprocess.DEVNULL,
                    stdout=sink,
                    stderr=sink,
                    start_new_session=True,
                )
        for part in parts:
            self.eventually(lambda part=part: part.healthy(since), 400, f"{part.name} to be well")
        if not names:
            self.eventually(self.parsed, 400, "every Dag file to be parsed")  # a busy Dag processor is well before

    def stop(self, *names: str, how: signal.Signals = signal.SIGTERM) -> None:
        """End components (all when none is named) with all they started in their own session."""
        chosen = {name: process for name, process in self.processes.items() if not names or name in names}
        for process in chosen.values():
            with suppress(ProcessLookupError):
                process.send_signal(how)
        for name, process in chosen.items():
            try:
                process.wait(25)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
            del self.processes[name]

    def sweep(self, session: int) -> None:
        """Kill what a killed component left in its session; detached drivers have sessions of their own."""
        for file in Path("/proc").iterdir():
            if file.name.isdigit():
                with suppress(ProcessLookupError, PermissionError):
                    if os.getsid(int(file.name)) == session:
                        os.kill(int(file.name), signal.SIGKILL)

    def end_drivers(self) -> None:
        """Kill every driver that was launched; nothing is left behind."""
        backend = LocalBackend(self.runtime.drivers)
        for job in backend.find():
            if job.life is not Life.GONE:
                backend.kill(job)

    # -- REST -----------------------------------------------------------------------------------------------------
    def token_of(self, user: str) -> str:
        """A token of a user of the stack, each of which has the role of the same name."""
        secret = "airflow.password" if user == airflow_config.ADMIN else f"airflow.{user}.password"
        told = {"username": user, "password": self.site.secret(secret)}
        answer = self._ask("POST", f"{self.url}/auth/token", json=told)
        return str(answer.json()["access_token"])

    def call(self, method: str, path: str, **options: Any) -> httpx.Response:
        """Call the REST API as the admin."""
        self.token = self.token or self.token_of(airflow_config.ADMIN)
        headers = {"Authorization": f"Bearer {self.token}"}
        return self._ask(method, f"{self.url}/api/v2{path}", headers=headers, **options)

    def _ask(self, method: str, url: str, **options: Any) -> httpx.Response:
        answer = self.http.request(method, url, **options)
        self.http.cookies.clear()  # each call says by its header who calls
        return answer

    def driver(self, name: str) -> Driver:
        """The newest launch of a driver."""
        with self.registry() as connection:
            found = drivers.find(connection, name)
        assert found is not None, f"driver {name} was never launched"
        return found

    def stream(self, name: str) -> Stream:
        """A stream's row."""
        with self.registry() as connection:
            return streams.get(connection, name)

    def running(self, name: str) -> bool:
        """Whether the newest launch of a driver has a living process."""
        with self.registry() as connection:
            found = drivers.find(connection, name)
        return found is not None and found.handle is not None and life(found.handle) is Life.ALIVE

    def parsed(self) -> bool:
        """Whether Airflow knows Dags of every file of the project."""
        known = {Path(dag["fileloc"]).name for dag in self.call("GET", "/dags?limit=100").json().get("dags", [])}
        return known >= {file.name for file in (self.site.project.root / "dags").glob("*.py")}

    def trigger(self, dag: str, **params: Any) -> str:
        """Start a run; its id."""
        answer = self.call("POST", f"/dags/{dag}/dagRuns", json={"logical_date": None, "conf": params})
        assert answer.status_code == 200, answer.text
        return str(answer.json()["dag_run_id"])

    def state(self, dag: str, run: str) -> str:
        return str(self.call("GET", f"/dags/{dag}/dagRuns/{run}").json()["state"])

    def finished(self, dag: str, run: str, within_s: float = 400) -> str:
        """Wait for a run; `success` or `failed`."""
        self.eventually(lambda: self.state(dag, run) in ("success", "failed"), within_s, f"{dag} {run} to end")
        return self.state(dag, run)

    def runs(self, dag: str) -> list[dict[str, Any]]:
        """The runs of a Dag, newest first."""
        answer = self.call("GET", f"/dags/{dag}/dagRuns", params={"order_by": "-id", "limit": 50})
        return list(answer.json()["dag_runs"])

    def log(self, dag: str, run: str, task: str, attempt: int = 1, *, mapped: int = -1) -> str:
        """The task's log as people read it: one event a line, with its fields; `mapped`: the index of a mapped one."""
        params = {} if mapped < 0 else {"map_index": mapped}
        answer = self.call("GET", f"/dags/{dag}/dagRuns/{run}/taskInstances/{task}/logs/{attempt}", params=params)
        entries = answer.json().get("content", [])
        return "\n".join(of_entry(entry) for entry in entries)

    def mapped(self, dag: str, run: str, task: str) -> dict[str, str]:
        """The instances of a mapped task: name as the UI shows it -> state."""
        answer = self.call("GET", f"/dags/{dag}/dagRuns/{run}/taskInstances/{task}/listMapped")
        return {each["rendered_map_index"]: each["state"] for each in answer.json()["task_instances"]}

    def eventually(self, so: Callable[[], object], within_s: float = 60, what: str = "it") -> None:
        """Wait until something is so."""
        deadline = time.monotonic() + within_s
        while True:
            with suppress(httpx.HTTPError):
                if so():
                    return
            ended = [name for name, process in self.processes.items() if process.poll() is not None]
            assert not ended, f"{', '.join(ended)} ended while waiting for {what}\n{self.story()}"
            assert time.monotonic() < deadline, f"waited {within_s:g} s for {what}\n{self.story()}"
            time.sleep(LOOKS_S)

    def story(self) -> str:
        """What a person would look at when something does not happen."""
        lines = [f"{name}: exit {process.poll()}" for name, process in self.processes.items()]
        with self.registry() as connection:
            lines += [f"{row.id}: {row.desired} {row.state}: {row.why}" for row in streams.all_streams(connection)]
            lines += [f"incident {at}: {each.text}" for at, each in incidents.open_ones(connection).items()]
        with suppress(httpx.HTTPError, KeyError):
            lines += [f"{run['dag_run_id']}: {run['state']}" for run in self.runs("streams_reconcile")[:5]]
        for log in sorted(self.home.logs.glob("*.log")):
            lines += [f"-- {log.name}", *log.read_text(errors="replace").splitlines()[-15:]]
        return "\n".join(lines)


def stream_file(name: str) -> str:
    """A small valid stream; `hourly` has a schedule, by which it is not to run while tests do."""
    text = STREAM.replace("ID", name).replace("DRIVER", STREAMS.get(name, name))
    if name == "hourly":
        text = text.replace("{every: 10s}", f"{{available_now: true, schedule: {SCHEDULE!r}}}")
    return text


@contextmanager
def project(root: Path, *streams: str) -> Iterator[Project]:
    """A project with these streams and the repository's own Dag files."""
    (root / "conf" / "streams").mkdir(parents=True)
    for name in streams:
        (root / "conf" / "streams" / f"{name}.yaml").write_text(stream_file(name))
    shutil.copytree(REPOSITORY / "dags", root / "dags", ignore=shutil.ignore_patterns("__pycache__"))
    yield Project(root)


def site(folder: Path, project: Project, *, postgres: int, password: str, kafka: int | None = None) -> StackContext:
    """The site of a stack whose PostgreSQL (and broker) somebody else runs; the role `lakeward` has this password."""
    broker = kafka or ports.any_free()
    at = {"postgres": postgres, "airflow": ports.any_free(), "kafka": broker, "connect": ports.any_free()}
    made = StackContext(project, Home(folder), at, jars.find_java())
    private.write(private.folder(made.home.secrets) / "lakeward.password", password)
    made.write()
    airflow_config.write(made)
    return made


def deploy(connection: Connection, *names: str, desired: str = "running") -> None:
    """What `lakeward deploy` writes for the streams of `project`."""
    from lakeward.spec.model.stream import StreamSpec

    for name in names:
        spec = StreamSpec.model_validate(
            {
                "id": name,
                "owner": "ops",
                "source": {"kafka": {"topics": ["flights"], "max_offsets_per_trigger": 1000}},
                "sink": {"iceberg": {"table": f"nyc.{name}"}},
                **({"trigger": {"available_now": True, "schedule": SCHEDULE}} if name == "hourly" else {}),
            }
        )
        streams.accept(connection, name, generation=1, driver=STREAMS[name], desired=desired)
        generations.add(
            connection,
            stream=name,
            generation=1,
            spec=spec.model_dump(mode="json", by_alias=True, exclude_none=True),
            digest=name,
            sql=None,
            code={},
            versions={},
            author="test",
            checkpoint=f"/checkpoints/{name}/1",
        )


STREAMS = {
    "flights": "nyc",
    "alerts": "nyc",
    **{
        name: name
        for name in (
            "operated",
            "survivor",
            "starved",
            "marked",
            "contested",
            "moved",
            "refilled",
            "muted",
            "awaited",
            "used_late",
            "hourly",
            "shown",
            "browsed",
        )
    },
}
"""Stream -> driver: each test file has streams of its own, so that the files may run in any order."""


@pytest.fixture(scope="session")
def airflow(postgres: Any, kafka: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[AirflowService]:
    """The four components of a real Airflow with Lakeward's Dags, once a run.

    The broker is real: a stream whose broker is away is not started again, and that is not what is tested here.
    """
    broker = int(kafka.bootstrap.rsplit(":", 1)[1])
    root = tmp_path_factory.mktemp("airflow")
    with project(root / "project", *STREAMS) as chosen:
        for file in OTHER_DAGS.glob("*.py"):  # Dags that some tests need; to parse them later takes its time
            shutil.copy(file, chosen.dags)
        made = site(root / "home", chosen, postgres=postgres.port, password=postgres.password, kafka=broker)
        postgres.create_database("airflow")
        roles = {"catalog": made.secret("catalog.password")}
        postgres._server.prepare(postgres.admin_password, roles, {"catalog": "catalog"})
        create_schema(made.runtime().lake, made.catalog_pgpass)
        service = AirflowService(made)
        private.folder(service.runtime.drivers)
        (service.runtime.drivers / "mode").write_text("calm")
        engine.migrate(service.home.registry_url_file.read_text().strip(), service.home.pgpass)
        airflow_parts.migrate(made)
        try:
            service.start()
            airflow_pool.ensure(made)
            yield service
        finally:
            sessions = [process.pid for process in service.processes.values()]
            # No test looks at how they end, and the scheduler would wait half a minute for its running tasks.
            service.stop(how=signal.SIGKILL)
            for session in sessions:  # workers of the executor outlive their scheduler
                service.sweep(session)
            service.end_drivers()
            service.http.close()
            engine.engine(service.home.registry_url_file.read_text().strip(), service.home.pgpass).dispose()
