"""What the document of an application of YARN says about its driver; the texts are YARN's own, of 3.4.2."""

from __future__ import annotations

from typing import Any

import pytest

from lakeward.platform.failures import Cause, FailureClass, judge
from lakeward.supervision.backends import applications
from lakeward.supervision.backends.base import Life

LIMIT = (
    "[Sun Nov 29 10:27:08 +0000 2026] Application is added to the scheduler and is not yet activated. Queue's AM "
    "resource limit exceeded.  Details : AM Partition = <DEFAULT_PARTITION>; AM Resource Request = <memory:1280, "
    "vCores:1>; Queue Resource Limit for AM = <memory:384, vCores:0>; "
)
FULL = (
    "[Sun Nov 29 10:26:13 +0000 2026] Application is Activated, waiting for resources to be assigned for AM.  Details"
    " : Queue's Absolute used capacity = 0.0 % ; "
)
KILLED = (
    "Application application_1_0014 failed 1 times (global limit =2; local limit is =1) due to AM Container for "
    "appattempt_1_0014_000001 exited with  exitCode: {code}\nFailing this attempt.Diagnostics: [2026-11-29 "
    "10:30:48.128]{said}\nFor more detailed output, check the application tracking page: http://localhost:18088/cluster/"
    "app/a Then click on links to logs of each attempt.\n. Failing the application."
)


def app(state: str, diagnostics: str = "", final: str = "UNDEFINED") -> dict[str, Any]:
    return {
        "id": "application_1_0014", "queue": "root.small", "state": state, "finalStatus": final,
        "diagnostics": diagnostics,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("state", "life"),
    [
        ("NEW", Life.ALIVE),
        ("NEW_SAVING", Life.ALIVE),
        ("SUBMITTED", Life.ALIVE),
        ("ACCEPTED", Life.ALIVE),
        ("RUNNING", Life.ALIVE),
        ("FINISHED", Life.GONE),
        ("FAILED", Life.GONE),
        ("KILLED", Life.GONE),
        ("A_NEW_STATE", Life.UNKNOWN),
        ("", Life.UNKNOWN),
    ],
)
def test_each_state_of_yarn(state: str, life: Life) -> None:
    found = applications.judge(app(state))
    assert found.life is life
    assert bool(found.waits) == (state in ("NEW", "NEW_SAVING", "SUBMITTED", "ACCEPTED"))
    assert bool(found.lost) == (life is Life.UNKNOWN)
    assert (found.exit is not None) == (life is Life.GONE)


@pytest.mark.parametrize(
    ("said", "code", "cause"),
    [
        (LIMIT, "LW-2569", Cause.NO_ROOM),
        (FULL, "LW-2569", Cause.NO_ROOM),
        ("", "LW-2570", Cause.NOT_STARTED),
        ("something new", "LW-2570", Cause.NOT_STARTED),
    ],
)
def test_why_it_waits_is_in_the_words_of_yarn(said: str, code: str, cause: Cause) -> None:
    waits = applications.judge(app("ACCEPTED", said)).waits
    assert code in waits and "next: yarn" in waits
    assert said[:60].strip() in waits
    assert judge(text=waits).failure_class is FailureClass.DEPENDENCY
    assert judge(text=waits).cause is cause


@pytest.mark.parametrize(
    ("code", "said", "words", "cause"),
    [
        (-104, "Container is running beyond physical memory limits.", "more physical memory than", Cause.OUT_OF_MEMORY),
        (-103, "Container is running beyond virtual memory limits.", "more virtual memory than", Cause.OUT_OF_MEMORY),
        (-102, "Container preempted by scheduler", "was preempted by YARN", Cause.NODE),
        (-101, "Node is unhealthy", "its disks failed", Cause.NODE),
        (-106, "Container killed by the ResourceManager", "had its container killed", Cause.NODE),
        (137, "Container killed on request. Exit code is 137", "killed by SIGKILL (exit code 137): by a person", None),
        (143, "Container killed on request. Exit code is 143", "killed by SIGTERM (exit code 143)", None),
    ],
)
def test_each_end_that_yarn_tells_has_a_name(code: int, said: str, words: str, cause: Cause | None) -> None:
    found = applications.judge(app("FAILED", KILLED.format(code=code, said=said), "FAILED"))
    assert found.life is Life.GONE and found.exit is not None
    error = str(found.exit["error"])
    assert words in error and "tracking page" not in error
    if cause is not None:
        assert judge(text=error).cause is cause


@pytest.mark.parametrize(
    "said",
    [
        KILLED.format(code=-100, said="Container released on a *lost* node"),
        "Application application_1_0014 failed 1 times due to ApplicationMaster for attempt appattempt_1_0014_000001 "
        "timed out. Failing the application.",
    ],
)
def test_a_driver_of_a_lost_node_is_lost_and_not_dead(said: str) -> None:
    found = applications.judge(app("FAILED", said, "FAILED"))
    assert (found.life, found.exit) == (Life.UNKNOWN, None)
    assert "YARN lost the node" in found.lost


def test_words_of_the_driver_s_own_output_are_not_taken_for_a_lost_node() -> None:
    said = KILLED.format(code=1, said="Last 4096 bytes of stderr : java.net.SocketTimeoutException: Read timed out")
    assert applications.judge(app("FAILED", said, "FAILED")).life is Life.GONE


def test_a_person_who_kills_it_is_named() -> None:
    found = applications.judge(app("KILLED", "Application application_1_0014 was killed by user root", "KILLED"))
    assert found.exit == {
        "error": "The driver was killed by a person or a program, through YARN: Application application_1_0014 was "
        "killed by user root"
    }


def test_the_exit_code_of_the_driver_itself_is_kept() -> None:
    found = applications.judge(app("FINISHED", "User application exited with status 3", "FAILED"))
    assert found.exit == {"exit_code": 3, "error": "User application exited with status 3"}
    assert applications.judge(app("FINISHED", "", "SUCCEEDED")).exit == {"exit_code": 0}
    other = applications.judge(app("FAILED", KILLED.format(code=1, said="Exception from container-launch"), "FAILED"))
    assert other.exit is not None and other.exit["exit_code"] == 1
