"""What executors on other machines must find, by what a stream says."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from lakeward.connectors.aws import account
from lakeward.engine.executors import PATIENCE_S, QUERY_EVERY_S, ExecutorStarvation, Need, needs
from lakeward.platform import private
from lakeward.platform.errors import DependencyDown
from lakeward.platform.failures import Cause, FailureClass, judge
from lakeward.platform.runtime import Lake, ObjectStore, Runtime
from lakeward.spec.model.stream import StreamSpec

LOGIN = "bootstrap.servers=b:9092\nsecurity.protocol=SASL_PLAINTEXT\nsasl.mechanism=PLAIN\n"


@pytest.fixture
def runtime(tmp_path: Path) -> Runtime:
    (tmp_path / "secrets/kafka").mkdir(parents=True)
    file = tmp_path / "secrets/kafka/safe.properties"
    file.write_text(LOGIN + "sasl.username=u\nsasl.password=p\n")
    file.chmod(0o600)
    return Runtime(
        registry_url_file=tmp_path / "url", lake=Lake(warehouse="/w"), kafka={"lakeward_kafka": "b:9092"},
        connections=tmp_path / "secrets", checkpoints="/c", drivers=tmp_path, jars=tmp_path,
    )  # fmt: skip


def asked(runtime: Runtime, checkpoint: str = "/c/s", *, stateful: bool = False, **more: Any) -> set[Need]:
    document = {
        "id": "s", "owner": "o", "transform": {"sql": "SELECT * FROM source"}, "trigger": {"every": "1s"},
        "source": {"rate": {}}, "sink": {"iceberg": {"table": "a.b"}}, **more,
    }  # fmt: skip
    return set(needs(StreamSpec.model_validate(document), runtime, checkpoint, stateful=stateful))


def kafka(connection: str) -> dict[str, Any]:
    return {"kafka": {"topics": ["t"], "connection": connection, "max_offsets_per_trigger": 1}}


def test_rows_go_to_the_warehouse_and_state_to_the_checkpoint(runtime: Runtime) -> None:
    warehouse = Need(Path("/w"), "the warehouse", written=True)
    assert asked(runtime) == {warehouse}
    console = {"sink": {"console": {}}}
    assert asked(runtime, **console) == set()
    assert asked(runtime, **console, late={"table": "a.late"}) == {warehouse}
    state = Need(Path("/c/s"), "the checkpoint, which holds state", written=True)
    assert asked(runtime, stateful=True) == {warehouse, state}
    assert asked(runtime, "file:///c/s", stateful=True) == {warehouse, state}
    assert asked(runtime, "s3a://lake/c/s", stateful=True) == {warehouse}


def test_files_that_are_read_and_written(runtime: Runtime) -> None:
    found = asked(
        runtime,
        source={"files": {"path": "/in/day=*/x-*.json", "format": "json", "max_files_per_trigger": 1}},
        decode={"json": "n INT"},
        reference={"r": {"csv": "/ref/r.csv", "columns": "n INT", "refresh": "1m"}},
        sink={"files": {"path": "/out", "format": "json"}},
    )
    assert found == {
        Need(Path("/in"), "the folder of source source"),
        Need(Path("/ref/r.csv"), "reference r"),
        Need(Path("/out"), "the sink's folder", written=True),
    }


def test_a_login_is_read_where_it_is_used_and_brokers_without_one_need_nothing(runtime: Runtime) -> None:
    assert asked(runtime, source=kafka("lakeward_kafka"), sink={"console": {}}) == set()
    [login] = asked(runtime, source=kafka("safe"), sink={"console": {}})
    assert not login.written
    assert login.path.is_relative_to(runtime.connections or "")
    assert login.what == "the login of Kafka connection safe"


def test_the_token_that_assumes_a_role_is_needed_with_the_file_that_names_it(runtime: Runtime, tmp_path: Path) -> None:
    given = {account.ROLE: "arn:r", account.REGION: "r", account.WEB_TOKEN: "/run/token"}
    file = private.write(private.folder(tmp_path / "aws") / "role.ini", account.render(given))
    lake = runtime.lake.model_copy(update={"store": ObjectStore(connection="role", connections=tmp_path)})
    found = asked(runtime.model_copy(update={"lake": lake}), source=kafka("lakeward_kafka"), sink={"console": {}})
    token = Need(Path("/run/token"), "the token that assumes role arn:r")
    assert found == {Need(file, "the keys of the object store"), token}


def test_a_driver_without_executors_ends_only_when_tasks_wait_for_long() -> None:
    there, busy, now = [1], [True], [100.0]
    seen = ExecutorStarvation(lambda: there[0], lambda: busy[0], lambda: now[0])

    def after(seconds: float) -> str | None:
        now[0] += seconds
        return seen.why()

    assert after(PATIENCE_S * 2) is None
    there[0] = 0
    assert after(QUERY_EVERY_S) is None
    assert after(PATIENCE_S - QUERY_EVERY_S) is None
    busy[0] = False  # nothing waits: they went because they were idle
    assert after(PATIENCE_S) is None
    busy[0] = True
    assert after(QUERY_EVERY_S) is None
    why = after(PATIENCE_S)
    assert why is not None
    assert why.startswith("The Spark cluster gave no executor for 180 s although tasks wait")
    assert judge(text=why).failure_class is FailureClass.DEPENDENCY
    room = "Kubernetes has no room for an executor"
    seen.unstarted = lambda: DependencyDown(room, why="3 Insufficient cpu", next="add nodes", code="LW-2559")
    named = after(QUERY_EVERY_S)
    assert named is not None and "[LW-2559]: 3 Insufficient cpu; next: add nodes" in named
    assert judge(text=named).cause is Cause.NO_ROOM
