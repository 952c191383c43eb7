"""The page in a browser, on a real Airflow. Needs Node and Chromium, which the gate does not install."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import airflow_service
import pytest
from airflow_service import AirflowService

from lakeward.registry import changes, maintenance, streams

UI = Path(__file__).parents[2] / "ui"
STREAM = "browsed"
BROWSER = all(map(shutil.which, ("node", "npm", "chromium")))
pytestmark = [
    pytest.mark.campaign,
    pytest.mark.timeout(900),
    pytest.mark.skipif(not BROWSER, reason="Node or Chromium is not installed"),
]


@pytest.fixture(scope="module", autouse=True)
def installed() -> None:
    subprocess.run(["npm", "ci", "--no-audit", "--no-fund", "--silent"], cwd=UI, check=True, timeout=300)


@pytest.mark.parametrize("script", ["check", "states"])
def test_types_words_and_every_state_of_the_page_hold_without_airflow(script: str) -> None:
    done = subprocess.run(["npm", "run", script], cwd=UI, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.fixture(scope="module")
def deployed(airflow: AirflowService) -> Iterator[AirflowService]:
    with airflow.registry() as connection:
        airflow_service.deploy(connection, STREAM, desired="stopped")
        maintenance.register(connection, "nyc.browsed", format="iceberg", location="/w", table_class="append-stream")
        maintenance.record_facts(connection, "nyc.browsed", 1, {"files": 40, "streams": [STREAM]})
    yield airflow
    with airflow.registry() as connection:
        streams.set_desired(connection, [STREAM], "stopped")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_person_sees_the_streams_and_starts_one(deployed: AirflowService, scheme: str, tmp_path: Path) -> None:
    command = [
        "node",
        "browse.mjs",
        deployed.url,
        str(deployed.home.secrets / "airflow.password"),
        str(tmp_path),
        STREAM,
    ]
    done = subprocess.run(
        [*command, scheme, "--table=nyc.browsed", "--operate"],
        cwd=UI,
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stderr

    def recorded() -> bool:
        with deployed.registry() as connection:
            return any(
                (change.author, change.comment) == ("admin", "seen by a test")
                for change in changes.newest(connection, "stream", STREAM)
            )

    deployed.eventually(recorded, 200, "the start by the admin to be recorded")
    with deployed.registry() as connection:
        streams.set_desired(connection, [STREAM], "stopped")
    deployed.eventually(lambda: deployed.stream(STREAM).state == "stopped", 200, "the stream to be stopped again")
