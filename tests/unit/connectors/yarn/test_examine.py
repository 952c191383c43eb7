"""`doctor` and `config validate --deep` ask the ResourceManager about version and queue."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from yarn_rm import YarnRm, running

from lakeward.connectors.yarn.examine import Answer, examine
from lakeward.platform.runtime import Home, Project
from lakeward.spec.model.settings import Driver, Settings


@pytest.fixture
def manager() -> Iterator[YarnRm]:
    with running() as found:
        yield found


def asked(manager: YarnRm, queue: str = "default") -> Answer:
    given = {"backend": "yarn", "queue": queue, "hadoop_conf": "/etc/hadoop", "resource_manager": manager.url}
    settings = Settings.model_validate({"drivers": {"big": given, "small": Driver()}})
    [found] = examine(settings, None)
    return found


@pytest.mark.parametrize("queue", ["default", "root.default"])
def test_a_queue_that_runs_is_no_problem(manager: YarnRm, queue: str) -> None:
    assert asked(manager, queue) == Answer("big", f"queue {queue}, driver big", "YARN 3.4.2, the queue runs")


@pytest.mark.parametrize(
    ("queue", "words"),
    [
        ("nowhere", "has no queue nowhere"),
        ("closed", "the queue closed is STOPPED"),
        ("root", "has other queues below it"),
    ],
)
def test_a_queue_that_takes_no_driver_is_named_with_those_that_do(manager: YarnRm, queue: str, words: str) -> None:
    found = asked(manager, queue)
    assert words in found.found
    assert "queues that run: root.default" in found.next


def test_a_manager_that_does_not_answer_or_wants_a_login_is_named(manager: YarnRm) -> None:
    manager.refusals["GET /info"] = (401, "<html>Authentication required</html>")
    assert "[LW-2566]" in asked(manager).found and "SPNEGO" in asked(manager).next
    manager.refusals["GET /info"] = (503, "")
    assert "[LW-2565]" in asked(manager).found


def test_deep_validation_points_at_the_driver(manager: YarnRm, tmp_path: Path) -> None:
    from lakeward.cli.deep import cluster_problems
    from lakeward.spec.read.loader import load_project

    root = tmp_path / "project"
    (root / "conf").mkdir(parents=True)
    entry = f"{{backend: yarn, queue: nowhere, hadoop_conf: /etc/hadoop, resource_manager: '{manager.url}'}}"
    (root / "conf" / "lakeward.yaml").write_text(f"drivers:\n  big: {entry}\n")
    [problem] = cluster_problems(Project(root), Home(tmp_path / "home"), load_project(Project(root)))
    assert (problem.file, problem.line, problem.path, problem.severity) == (
        "conf/lakeward.yaml", 2, "drivers.big", "error",
    )  # fmt: skip
    assert "has no queue nowhere" in problem.message
