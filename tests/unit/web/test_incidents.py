"""Twelve incidents, read on the page: cause, whether data is lost, and the next command, within two clicks.

The expected words are in docs/explanation/incidents.json. With `LAKEWARD_INCIDENTS=FOLDER` the documents of the API are
written there, for `npm run incidents` in `ui/`, which looks for the same words in a browser.
"""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import seeded_incidents
from fastapi.testclient import TestClient
from small_streams import SMALL_DRIVER

from lakeward.platform.runtime import Project
from lakeward.supervision.backends.base import Life
from lakeward.supervision.backends.local import LocalBackend
from lakeward.web.app import Gate, build
from lakeward.web.reads import Reads

ROOT = Path(__file__).parents[3]
ANSWERS = json.loads((ROOT / "docs" / "explanation" / "incidents.json").read_text())
KEPT = ("streams", "tables", "quality", "audit")
"""Documents without a name in their path."""


@pytest.fixture
def backend(site: Any) -> Iterator[LocalBackend]:
    made = LocalBackend(site.runtime.drivers, wrapper=(sys.executable, str(SMALL_DRIVER)))
    yield made
    for job in made.find():
        if job.life is not Life.GONE:
            made.kill(job)


def gate() -> Gate:
    return Gate(lambda: None, lambda: lambda dags: set(dags), lambda dag_id: "ada")


def documents(client: TestClient) -> dict[str, Any]:
    """What the page may ask for: each list, and the details of the stream and the table."""
    of_stream, of_table = seeded_incidents.STREAM, seeded_incidents.TABLE
    paths = [
        *KEPT, *(f"streams/{of_stream}{rest}" for rest in ("", "/batches", "/lag")),
        f"tables/{of_table}", f"quality/{of_table}",
    ]  # fmt: skip
    answers = {path: client.get(f"/api/v1/{path}") for path in paths}
    return {path: answer.json() for path, answer in answers.items() if answer.status_code == 200}


def test_the_answers_are_about_the_twelve() -> None:
    assert [each["incident"] for each in ANSWERS] == list(seeded_incidents.INCIDENTS)


@pytest.mark.parametrize("answer", ANSWERS, ids=lambda each: each["incident"])
def test_the_page_answers(answer: dict[str, Any], site: Any, landed: Any, backend: LocalBackend) -> None:
    scene = seeded_incidents.prepared(site, landed, backend, Project(ROOT))
    seeded_incidents.INCIDENTS[answer["incident"]](scene)
    found = documents(TestClient(build(Reads(lambda: scene.site.runtime), gate())))
    if folder := os.environ.get("LAKEWARD_INCIDENTS"):
        file = Path(folder) / f"{answer['incident']}.json"
        file.write_text(json.dumps(found, indent=1))
    text = " ".join(json.dumps(found[path], ensure_ascii=False) for path in answer["shown"])
    for what in ("cause", "data", "next"):
        assert re.search(answer[what], text.replace('\\"', '"')), f"{what}: {answer[what]}\n{text[:6000]}"
    assert len(answer["clicks"]) <= 2
