"""What a pod's document says about its driver."""

from __future__ import annotations

from typing import Any

import pytest

from lakeward.platform.failures import Cause, FailureClass, judge
from lakeward.supervision.backends import pods
from lakeward.supervision.backends.base import Life

NOW = 1_795_935_600.0  # 2026-11-29T07:00:00Z


def pod(*, deleted: str | None = None, **status: Any) -> dict[str, Any]:
    metadata = {"name": "lakeward-big-1", "namespace": "streams", "uid": "u1"}
    if deleted:
        metadata["deletionTimestamp"] = deleted
    container = {"name": "driver", "resources": {"limits": {"memory": "1434Mi"}}}
    return {"metadata": metadata, "spec": {"nodeName": "node-one", "containers": [container]}, "status": status}


def of_container(**state: Any) -> list[dict[str, Any]]:
    return [{"name": "sidecar", "state": {}}, {"name": "driver", "state": state}]


def waiting(reason: str, message: str) -> dict[str, Any]:
    return pod(
        phase="Pending",
        conditions=[{"type": "PodScheduled", "status": "True"}],
        containerStatuses=of_container(waiting={"reason": reason, "message": message}),
    )


UNSCHEDULABLE = pod(
    phase="Pending",
    conditions=[
        {
            "type": "PodScheduled", "status": "False", "reason": "Unschedulable",
            "message": "0/3 nodes are available: 3 Insufficient memory.",
        }
    ],
)  # fmt: skip


@pytest.mark.parametrize(
    ("found", "code", "words", "cause"),
    [
        (UNSCHEDULABLE, "LW-2559", "Unschedulable: 0/3 nodes are available: 3 Insufficient memory.", Cause.NO_ROOM),
        (
            waiting("ImagePullBackOff", 'Back-off pulling image "x/y:1"'), "LW-2558",
            'ImagePullBackOff: Back-off pulling image "x/y:1"', Cause.NOT_STARTED,
        ),
        (waiting("ErrImagePull", "Connection refused"), "LW-2558", "Connection refused", Cause.NOT_STARTED),
        (
            waiting("CreateContainerConfigError", 'secret "lakeward-registry" not found'), "LW-2560",
            'secret "lakeward-registry" not found', Cause.NOT_STARTED,
        ),
        (waiting("ContainerCreating", ""), "LW-2561", "ContainerCreating", Cause.NOT_STARTED),
        (pod(phase="Pending"), "LW-2561", "has not reported", Cause.NOT_STARTED),
    ],
)  # fmt: skip
def test_a_pod_that_has_not_started_says_why(found: Any, code: str, words: str, cause: Cause) -> None:
    state = pods.judge(found, NOW)
    assert state.life is Life.ALIVE
    assert f"[{code}]" in state.waits and words in state.waits
    assert "kubectl describe pod lakeward-big-1 -n streams" in state.waits
    assert (judge(text=state.waits).failure_class, judge(text=state.waits).cause) == (FailureClass.DEPENDENCY, cause)


def terminated(code: int, reason: str, message: str = "", **status: Any) -> dict[str, Any]:
    of_it = {"exitCode": code, "reason": reason, "message": message}
    return pod(phase="Failed", containerStatuses=of_container(terminated=of_it), **status)


@pytest.mark.parametrize(
    ("found", "code", "words", "cause"),
    [
        (terminated(137, "OOMKilled"), 137, "OOMKilled at the limit of 1434Mi", Cause.OUT_OF_MEMORY),
        (
            pod(phase="Failed", reason="Evicted", message="The node was low on resource: memory."), None,
            "was evicted from its node: The node was low on resource: memory.", Cause.NODE,
        ),
        (pod(phase="Failed", reason="DeadlineExceeded"), None, "at the deadline of its pod", Cause.NODE),
        (pod(phase="Failed", reason="NodeLost"), None, "was lost with its node", Cause.NODE),
        (
            terminated(
                137, "Error", conditions=[
                    {"type": "DisruptionTarget", "status": "True", "reason": "EvictionByEvictionAPI", "message": "m"}
                ],
            ), None, "was evicted through the API, e.g. by kubectl drain: m", Cause.NODE,
        ),
        (terminated(1, "Error", "ModuleNotFoundError: No module named 'x'"), 1, "No module named 'x'", None),
        (terminated(137, "Error"), 137, "", Cause.KILLED),
    ],
)  # fmt: skip
def test_a_pod_that_ended_says_how(found: Any, code: int | None, words: str, cause: Cause | None) -> None:
    state = pods.judge(found, NOW)
    assert state.life is Life.GONE and state.exit is not None
    error = state.exit.get("error") or ""
    assert state.exit.get("exit_code") == code
    assert words in error
    assert judge(text=str(error), exit_code=code).cause is cause


def test_a_pod_that_succeeded_has_no_error() -> None:
    found = pod(phase="Succeeded", containerStatuses=of_container(terminated={"exitCode": 0, "message": "bye"}))
    assert pods.judge(found, NOW) == pods.PodState(Life.GONE, exit={"exit_code": 0})


def test_a_running_pod_runs_and_one_being_deleted_does_until_its_node_is_silent() -> None:
    assert pods.judge(pod(phase="Running"), NOW) == pods.PodState(Life.ALIVE)
    assert pods.judge(pod(phase="Running", deleted="2026-11-29T06:59:45Z"), NOW).life is Life.ALIVE
    late = pods.judge(pod(phase="Running", deleted="2026-11-29T06:59:15Z"), NOW)
    assert (late.life, late.lost) == (Life.UNKNOWN, "the node node-one does not confirm the end of its pod")


@pytest.mark.parametrize("status", [{"phase": "Unknown"}, {"phase": "Running", "reason": "NodeLost"}])
def test_a_pod_of_a_lost_node_may_run_on(status: dict[str, str]) -> None:
    assert pods.judge(pod(**status), NOW).lost == "the node node-one of its pod is lost"
