"""Projects on disk, as a user writes them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from textwrap import dedent

import pytest

from lakeward.platform.runtime import Project
from lakeward.spec.read.loader import Loaded, load_project

MINIMAL = """\
owner: data-platform
source:
  kafka: {topics: [flights], max_offsets_per_trigger: 20000}
decode: {json: "year INT, carrier STRING, dep_delay DOUBLE, time_hour TIMESTAMP"}
sink:
  iceberg: {table: nyc.flights, partition_by: ["days(time_hour)"]}
trigger: {every: 10s}
"""


@pytest.fixture
def minimal() -> str:
    """The smallest useful stream."""
    return MINIMAL


@pytest.fixture
def project(tmp_path: Path) -> Callable[..., Loaded]:
    """`project(**{"conf/streams/a.yaml": text, ...})` writes the files and loads them."""

    def write(files: dict[str, str]) -> Loaded:
        (tmp_path / "conf" / "streams").mkdir(parents=True, exist_ok=True)
        for name, text in files.items():
            file = tmp_path / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(dedent(text))
        return load_project(Project(tmp_path.resolve()))

    return write


@pytest.fixture
def stream(project: Callable[..., Loaded]) -> Callable[..., Loaded]:
    """`stream(text)` loads a project with the one stream `a`; other files may be given too."""
    return lambda text, **files: project({"conf/streams/a.yaml": text, **files})
