"""Drivers in cluster mode on a Spark standalone cluster: submit, list, ask for one, kill. No JVM is started for it.

`spark-submit` refuses Python programs there. The program that it would start is an ordinary main class, `PythonRunner`:
it starts Python with the address of its own JVM, and pyspark uses that JVM. It is submitted to the master's REST
gateway. The list of drivers is the JSON of the master's page. See docs/adr/0101.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from lakeward import jars
from lakeward.connectors.iceberg import catalog
from lakeward.jars.java import DEEP_STACK, ROOM_FOR_CLASSES
from lakeward.platform.errors import DependencyDown, LakewardError
from lakeward.platform.runtime import ClusterPlace, Launch
from lakeward.spec.model.types import SparkMaster

ANSWER_S = 5.0
REST_PORT, UI_PORT = 6066, 8080
MAIN, PROGRAM = "org.apache.spark.deploy.PythonRunner", "lakeward.driver.cluster"
PYTHON = "spark.pyspark.python"
_CONTENT = {"Content-Type": "application/json;charset=UTF-8"}
_ENABLE = "start the master with spark.master.rest.enabled=true (docs/how-to/run-on-a-spark-cluster.md)"


@dataclass(frozen=True)
class Submission:
    """A driver as the master knows it. `state` is Spark's word, e.g. `RUNNING`; `worker` is empty before it has one."""

    id: str
    state: str
    worker: str = ""


@dataclass(frozen=True)
class Room:
    """What the workers of a cluster have free, in words."""

    words: str


@dataclass(frozen=True)
class Listing:
    """The drivers of a master by their ids, and what its workers have free."""

    drivers: Mapping[str, Submission]
    room: Room


def document(launch: Launch, python: str, spark_version: str) -> dict[str, Any]:
    """The request that submits a launch. It has the launch's id and paths, and neither token, password nor address of
    the registry.

    Args:
        launch: with its place.
        python: the interpreter on the workers.
        spark_version: of the client; a master of another minor version refuses.
    """
    runtime, given = launch.runtime, launch.conf
    master = given["spark.master"]
    own = jars.own.libraries()
    classpath = [*jars.spark_classpath(runtime.jars), *own, *catalog.libraries(runtime.lake, runtime.jars)]
    options = [DEEP_STACK, ROOM_FOR_CLASSES, "-XX:+ExitOnOutOfMemoryError"]
    if "-XX:+Use" not in given.get("spark.driver.extraJavaOptions", ""):
        options.append("-XX:+UseSerialGC")
    options.append(given.get("spark.driver.extraJavaOptions", ""))
    return {
        "action": "CreateSubmissionRequest",
        "clientSparkVersion": spark_version,
        "mainClass": MAIN,
        # A worker copies this file for every driver, and refuses a driver without one: the smallest of our jars.
        "appResource": own[0].as_uri(),
        # PythonRunner starts `python <first> <rest>`; the second is its list of Python files.
        "appArgs": ["-m", "", PROGRAM, launch.id, str(runtime.registry_url_file)],
        "environmentVariables": catalog.variables_of(runtime.lake),  # paths: the keys are in files
        "sparkProperties": {
            "spark.app.name": f"lakeward {launch.driver}",
            "spark.master": master,
            "spark.submit.deployMode": "cluster",
            "spark.driver.supervise": "false",  # who starts a driver again is decided by reconcile alone
            "spark.driver.memory": given.get("spark.driver.memory", "1g"),
            "spark.driver.cores": given.get("spark.driver.cores", "1"),
            "spark.driver.extraClassPath": ":".join(str(jar) for jar in classpath),
            "spark.driver.extraJavaOptions": " ".join(option for option in options if option),
            PYTHON: python,
            "spark.pyspark.driver.python": python,
        },
    }


def submit(place: ClusterPlace, request: Mapping[str, Any]) -> str:
    """Submit a driver; returns its id.

    Raises:
        DependencyDown: no master accepts it now.
        LakewardError: it is refused, or the gateway is switched off.
    """
    ours = str(request["clientSparkVersion"])
    theirs = str(_rest(place, "GET", "status/none").get("serverSparkVersion", ""))
    if theirs.split(".")[:2] != ours.split(".")[:2]:
        raise _refused(place, f"it runs Spark {theirs or 'of an unknown version'}, and this driver needs {ours}")
    answer = _rest(place, "POST", "create", request)
    if not answer.get("success"):
        raise _refused(place, str(answer.get("message") or answer))
    return str(answer["submissionId"])


def kill(place: ClusterPlace, submission: str) -> bool:
    """Kill a driver. False if the master does not know it as one that runs.

    Raises:
        DependencyDown: no master answers.
    """
    return bool(_rest(place, "POST", f"kill/{submission}", {}).get("success"))


def status(place: ClusterPlace, submission: str) -> tuple[str | None, str]:
    """State of one driver (None: the master does not know it), and what its worker reported about it.

    Raises:
        DependencyDown: no master answers.
    """
    answer = _rest(place, "GET", f"status/{submission}")
    state = str(answer["driverState"]) if answer.get("success") and answer.get("driverState") else None
    return state, str(answer.get("message") or "")


def listing(place: ClusterPlace) -> Listing:
    """All drivers that the active master knows, by one call.

    Raises:
        DependencyDown: no master answers, or none is active.
    """
    tried = []
    for url in urls(place, "ui"):
        try:
            body = _call("GET", f"{url}/json/")
        except _Unanswered as error:
            tried.append(f"{url}: {error}")
            continue
        if body.get("status") != "ALIVE":
            tried.append(f"{url}: the master is {str(body.get('status') or 'of another kind').lower()}")
            continue
        found = [*body.get("activedrivers", ()), *body.get("completeddrivers", ())]
        rows = [Submission(str(row["id"]), str(row["state"]), _host(str(row.get("worker", "")))) for row in found]
        return Listing({row.id: row for row in rows}, _room(body.get("workers", ())))
    raise DependencyDown(
        f"The page of the Spark master {place.master} does not answer", why="; ".join(tried),
        next="start the master, or correct ui: of the driver in conf/lakeward.yaml, then: lakeward doctor",
     code="LW-2521")  # fmt: skip


def urls(place: ClusterPlace, service: str) -> list[str]:
    """The addresses of the REST gateway (`rest`) or the page (`ui`): as given, else of each master."""
    given = getattr(place, service)
    if given is not None:
        return [str(given).rstrip("/")]
    port = REST_PORT if service == "rest" else UI_PORT
    return [f"http://{host}:{port}" for host, _ in SparkMaster(place.master).places]


class _Unanswered(Exception):
    """Raised when a server gave no answer that can be read. `code`: the HTTP status, if there was one."""

    def __init__(self, words: str, code: int | None = None) -> None:
        super().__init__(words)
        self.code = code


def _rest(place: ClusterPlace, method: str, path: str, request: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """One call to the gateway of the active master; a standby says that it is one."""
    tried: list[str] = []
    switched_off = 0
    addresses = urls(place, "rest")
    for url in addresses:
        try:
            answer = _call(method, f"{url}/v1/submissions/{path}", request)
        except _Unanswered as error:
            tried.append(f"{url}: {error}")
            switched_off += error.code == 404
            continue
        if "STANDBY" in str(answer.get("message", "")):
            tried.append(f"{url}: this master is a standby, or has just started")  # its message is a stack trace
            continue
        if answer.get("action") == "ErrorResponse":
            raise _refused(place, str(answer.get("message") or answer))
        return answer
    if switched_off == len(addresses):
        raise LakewardError(
            f"The Spark master {place.master} has no REST gateway", why="; ".join(tried),
            next=f"{_ENABLE}, or correct rest: of the driver in conf/lakeward.yaml",
         code="LW-2522")  # fmt: skip
    raise DependencyDown(
        f"The REST gateway of the Spark master {place.master} does not answer", why="; ".join(tried),
        next=f"{_ENABLE}, then: lakeward doctor",
     code="LW-2520")  # fmt: skip


def _refused(place: ClusterPlace, why: str) -> LakewardError:
    return LakewardError(
        f"The Spark master {place.master} refused a driver", why=why.strip().splitlines()[0][:300],
        next="use the Spark version of the cluster (docs/how-to/run-on-a-spark-cluster.md), and read the master's log",
     code="LW-2523")  # fmt: skip


def _call(method: str, url: str, request: Mapping[str, Any] | None = None) -> dict[str, Any]:
    import httpx  # a pass without drivers in cluster mode does not need it

    try:
        # No proxy of the environment: the master is inside.
        answer = httpx.request(method, url, json=request, headers=_CONTENT, timeout=ANSWER_S, trust_env=False)
    except httpx.HTTPError as error:
        raise _Unanswered(f"{type(error).__name__}: {error}" if str(error) else type(error).__name__) from None
    try:
        body = answer.json()
    except ValueError:
        body = None
    if not isinstance(body, dict):
        raise _Unanswered(f"HTTP status {answer.status_code}, and no JSON", answer.status_code)
    return body  # the gateway explains an error of 4xx and 5xx in its JSON


def _host(worker: str) -> str:
    """The host in a worker's id, `worker-<time>-<host>-<port>`; empty if it has another form."""
    parts = worker.split("-")
    return "-".join(parts[2:-1]) if len(parts) > 3 and parts[0] == "worker" else ""


def _room(workers: Sequence[Mapping[str, Any]]) -> Room:
    alive = [worker for worker in workers if worker.get("state") == "ALIVE"]
    if not alive:
        return Room("it has no worker")
    free = [f"{item.get('host')} {item.get('coresfree')} cores and {item.get('memoryfree')} MB" for item in alive[:5]]
    return Room(f"its workers have free: {', '.join(free)}")
