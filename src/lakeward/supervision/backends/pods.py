"""What the document of a pod says about its driver. Pure.

| the pod | the driver |
|---|---|
| `Pending` | not started; why, in the cluster's words |
| `Running` | runs |
| `Succeeded`, `Failed` | has ended: exit code and reason of its container |
| `Unknown`, or an end that its node does not confirm | its node is lost, and it may run on |
| not there | ended if it left an exit record; else it may run on, on a node that was cut off |
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from lakeward.connectors.kubernetes import pending
from lakeward.connectors.kubernetes.client import Pod
from lakeward.connectors.kubernetes.manifest import CONTAINER
from lakeward.platform.errors import DependencyDown
from lakeward.supervision.backends.base import ExitRecord, Life

UNCONFIRMED_S = 30.0
"""A node that has not confirmed the end of a pod this long after its grace period is lost."""
_DRIVER = pending.Part("a driver", CONTAINER, "the driver smaller (memory:, cores:)")
_ENDS = {
    "OOMKilled": "ran out of memory: its container was OOMKilled at the limit of {limit}",
    "Evicted": "was evicted from its node",
    "DeadlineExceeded": "was ended at the deadline of its pod",
    "NodeLost": "was lost with its node",
    "NodeShutdown": "was ended by the shutdown of its node",
    "Terminated": "was ended by the shutdown of its node",
    "Preempting": "was preempted by a pod of higher priority",
    "PreemptionByScheduler": "was preempted by a pod of higher priority",
    "DeletionByTaintManager": "was ended because its node has a taint",
    "EvictionByEvictionAPI": "was evicted through the API, e.g. by kubectl drain",
    "TerminationByKubelet": "was ended by its node",
    "DeletionByPodGC": "was removed because its node is lost",
}
_KILLED = 137


@dataclass(frozen=True)
class PodState:
    """What is left of a pod. `waits`, `lost`: as in `Job`. `exit`: its end, without an exit record of the driver."""

    life: Life
    waits: str = ""
    lost: str = ""
    exit: ExitRecord | None = None


def judge(pod: Pod, now: float) -> PodState:
    """What is left of a pod.

    Args:
        now: the server's time, in seconds since 1970.
    """
    status = pod.get("status") or {}
    phase = status.get("phase")
    if has_ended(pod):
        return PodState(Life.GONE, exit=ended(pod))
    node = (pod.get("spec") or {}).get("nodeName") or "without a name"
    if phase == "Unknown" or status.get("reason") == "NodeLost":
        return PodState(Life.UNKNOWN, lost=f"the node {node} of its pod is lost")
    if (deleted := (pod.get("metadata") or {}).get("deletionTimestamp")) and now > _seconds(deleted) + UNCONFIRMED_S:
        return PodState(Life.UNKNOWN, lost=f"the node {node} does not confirm the end of its pod")
    if phase == "Pending" and not deleted:
        return PodState(Life.ALIVE, waits=words(pending.why(pod, _DRIVER)))
    return PodState(Life.ALIVE)


def words(error: DependencyDown) -> str:
    """An error in one line, for decisions, events and incidents."""
    return f"{error.headline}: {error.why}; next: {error.next}"


def ended(pod: Pod) -> ExitRecord:
    """The end of a pod that has ended: the exit code of its container, and the reason that the cluster gives."""
    status = pod.get("status") or {}
    terminated = (pending.container(pod, CONTAINER).get("state") or {}).get("terminated") or {}
    code = terminated.get("exitCode")
    record: ExitRecord = {} if code is None else {"exit_code": int(code)}
    if code == 0:
        return record
    target = pending.condition(pod, "DisruptionTarget")
    disrupted = str(target.get("reason") or "") if target.get("status") == "True" else ""
    reasons = (str(terminated.get("reason") or ""), str(status.get("reason") or ""), disrupted)
    reason = next((each for each in reasons if each in _ENDS), "")
    limit = (((pod.get("spec") or {}).get("containers") or [{}])[0].get("resources") or {}).get("limits") or {}
    message = str(status.get("message") or target.get("message") or "") if reason != "OOMKilled" else ""
    printed = str(terminated.get("message") or "").strip()
    if reason:
        error = f"The driver {_ENDS[reason].format(limit=limit.get('memory', 'its node'))}"
        record["error"] = f"{error}: {message}" if message else error
        if code == _KILLED and reason != "OOMKilled":
            del record["exit_code"]  # the reason says more than the signal
    elif printed:
        record["error"] = printed  # its last output, e.g. an import error
    elif code is None:
        record["error"] = pending.joined(str(status.get("reason") or "The pod ended"), str(status.get("message") or ""))
    return record


def has_ended(pod: Pod) -> bool:
    """Whether no container of a pod runs, nor ever will."""
    return (pod.get("status") or {}).get("phase") in ("Succeeded", "Failed")


def uid(pod: Pod) -> str:
    """The identity of a pod: another one of the same name has another."""
    return str((pod.get("metadata") or {}).get("uid") or "")


def node(pod: Pod) -> str:
    """The node of a pod; empty before it has one."""
    return str((pod.get("spec") or {}).get("nodeName") or "")


def _seconds(stamp: str) -> float:
    return datetime.fromisoformat(stamp).timestamp()
