"""`doctor`: missing requirements of this machine and this stack, with the next command for each."""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from pathlib import Path

import httpx
import psutil

from lakeward import jars
from lakeward.connectors.delta import location
from lakeward.connectors.iceberg.catalogs.examine import answers_of
from lakeward.platform import ports
from lakeward.platform.errors import LakewardError
from lakeward.platform.runtime import Home, Project
from lakeward.platform.text import size
from lakeward.spec.read.loader import load_project, load_settings
from lakeward.spec.read.settings_file import usable_settings
from lakeward.stack import groups, requirements, supervised
from lakeward.stack.site import StackContext, lake_of
from lakeward.stack.stack import Stack
from lakeward.stack.state import DEFAULT_PORTS, StackState

PYTHONS = ((3, 11), (3, 12))
OUR_TAG = "lakeward"


@dataclass(frozen=True)
class Check:
    """One line of `doctor`.

    Attributes:
        found, wanted: the actual and the required value, for display.
        next: the command that repairs it; if ok, it may be a remark.
    """

    name: str
    ok: bool
    found: str
    wanted: str
    next: str = ""


def examine(project: Project, home: Home) -> list[Check]:
    """Every check, in the order in which problems should be repaired."""
    state = StackState.load(home)
    checks = [python(), java(), memory(state), disk(home), jar_files(), *port_checks(state, groups.of(home))]
    if state.running:
        stack = Stack(project, home)
        checks += part_checks(stack)
        if "airflow" in state.parts:
            checks.append(paused_dags(stack.site(state)))
    else:
        checks.append(Check("stack", True, "not running", "up when you need it", "lakeward stack up"))
    return [*checks, *catalog_checks(project, home), *delta_store(project, home), survival(), owners(project)]


def python(version: tuple[int, int] = (sys.version_info.major, sys.version_info.minor)) -> Check:
    """Python version: one that Airflow, Spark and Great Expectations support."""
    installed = ".".join(map(str, version))
    return Check(
        "python", version in PYTHONS, installed, "3.11 or 3.12", "uv python install 3.11 && uv sync --all-extras"
    )


def java() -> Check:
    """Java version: 17 or newer."""
    try:
        installed = jars.find_java()
    except LakewardError as error:
        return Check("java", False, error.why or error.what, "17 or 21", error.next)
    return Check("java", True, f"{installed.major} at {installed.home}", "17 or 21")


def memory(state: StackState, available: Callable[[], int] = requirements.available_memory_bytes) -> Check:
    """Available memory; a running stack needs less, because its own use is not available."""
    free = available()
    required = 512 * 1024**2 if state.running else requirements.MEMORY_BYTES
    return Check(
        "memory",
        free >= required,
        f"{size(free)} available",
        f"{size(required)}",
        "close other programs, or start fewer parts: lakeward stack up --only postgres,kafka,connect",
    )


def disk(home: Home, free: Callable[[Path], int] = requirements.free_disk_bytes) -> Check:
    """Free disk space for tables, logs and checkpoints."""
    room = free(home.root)
    return Check(
        "disk",
        room >= requirements.DISK_BYTES,
        f"{size(room)} free at {home.root}",
        size(requirements.DISK_BYTES),
        "make room, or use another disk: lakeward --home DIR stack up",
    )


def jar_files() -> Check:
    """Every jar exists and is the reviewed one."""
    try:
        at = jars.folder()
        count = jars.verify(at)
    except LakewardError as error:
        return Check("jars", False, error.why or error.what, "the jars of jars.sha256", error.next)
    return Check("jars", True, f"{count} verified in {at}", "the jars of jars.sha256")


def port_checks(state: StackState, parts: Collection[str] = groups.GROUPS) -> Iterator[Check]:
    """The ports of a stopped stack: `up` uses other ports if they are in use."""
    if state.running:
        return
    for name, port in {**DEFAULT_PORTS, **state.ports}.items():
        if name.partition("-")[0] not in parts:
            continue
        free = ports.is_free(port)
        state_of_port = "free" if free else f"in use by {_listener(port)}: the next free one will be taken"
        yield Check(f"port {name}", True, f"{port} is {state_of_port}", "any free port")


def part_checks(stack: Stack) -> Iterator[Check]:
    """The health of every part of a running stack."""
    for part in stack.status():
        yield Check(part.name, part.state == "up", part.state, "up", f"lakeward stack up   (its log: less {part.log})")


def catalog_checks(project: Project, home: Home) -> Iterator[Check]:
    """What the catalog of the settings has and allows; nothing for the embedded one, which is a part of the stack."""
    try:
        settings = load_settings(project)
    except LakewardError as error:
        wanted = "conf/lakeward.yaml is valid"
        yield Check("settings", False, error.why or error.what, wanted, "lakeward config validate")
        return
    lake = lake_of(settings, home, 0)
    for each in (*([] if settings.lake is None else [lake]), *lake.others):
        of = f" {each.name}" if lake.others else ""
        for answer in answers_of(each):
            yield Check(f"{answer.name}{of}", answer.ok, answer.found, answer.wanted, answer.next)


def delta_store(project: Project, home: Home) -> Iterator[Check]:
    """Whether the object store of Delta tables grants a version of a log once; nothing without such tables."""
    loaded = load_project(project)
    if not any(each.spec.sink.delta is not None for each in loaded.streams.values()):
        return
    required = "the store refuses to create an object twice (If-None-Match)"
    try:
        place = location.try_store(lake_of(loaded.settings, home, 0))
    except LakewardError as error:
        yield Check("delta store", False, f"{error.what}: {error.why}", required, error.next)
        return
    if place is not None:
        yield Check("delta store", True, f"{place}: created once", required)


def paused_dags(site: StackContext, timeout_s: float = 10) -> Check:
    """No Lakeward Dag is paused: a paused Dag queues runs and never starts them."""
    required = "no paused Lakeward Dag"
    try:
        with supervised.client(site, timeout_s) as client:
            answer = client.get("/api/v2/dags", params={"paused": True, "tags": [OUR_TAG], "limit": 1000})
            answer.raise_for_status()
            paused = sorted(dag["dag_id"] for dag in answer.json()["dags"])
    except httpx.HTTPError as error:
        return Check("dags", False, f"Airflow's API does not answer: {error}", required, "lakeward stack status")
    if paused:
        return Check("dags", False, f"paused: {', '.join(paused)}", required, supervised.unpause(site, paused[0]))
    return Check("dags", True, "none is paused", required)


def survival(control: Path = Path("/proc/self/cgroup")) -> Check:
    """Whether detached drivers outlive the session: systemd and container runtimes end a whole control group."""
    required = "drivers outlive the process that started them"
    name = "driver survival"
    group = control.read_text() if control.exists() else ""
    if Path("/.dockerenv").exists() or any(word in group for word in ("docker", "kubepods", "containerd", "libpod")):
        return Check(name, True, "in a container: its end ends the drivers", required, "a container of their own")
    if ".service" in group or "session-" in group:
        unit = group.strip().rsplit("/", 1)[-1]
        return Check(
            name,
            True,
            f"inside {unit}: systemd ends the drivers with it",
            required,
            "systemd-run --user --scope lakeward stack up   (and: loginctl enable-linger $USER)",
        )
    return Check(name, True, "no control group ends them", required)


def owners(project: Project) -> Check:
    """Which tables are asked before maintenance deletes a file: a catalog elsewhere cannot be."""
    settings = usable_settings(project)
    further = f", of {', '.join(settings.others)}" if settings.others else ""
    return Check(
        "owners of files",
        True,
        f"before a file is deleted, the tables of catalog {settings.lake_name}{further}, of others in its database, "
        "and the Delta tables of its warehouse are asked",
        "no table of a catalog elsewhere uses their files",
        "where one does, set gc.enabled=false on the table whose files it uses: none of them is deleted then",
    )


def _listener(port: int) -> str:
    try:
        for link in psutil.net_connections("tcp"):
            if link.status == psutil.CONN_LISTEN and link.laddr and link.laddr.port == port and link.pid:
                return f"{psutil.Process(link.pid).name()} (pid {link.pid})"
    except (psutil.AccessDenied, psutil.NoSuchProcess):
        pass
    return "another program"
