from __future__ import annotations

from pathlib import Path

import pytest

from lakeward.platform.runtime import Project
from lakeward.spec.model.settings import Settings
from lakeward.spec.read.loader import load_project
from lakeward.spec.read.settings_file import usable_settings


@pytest.mark.parametrize(
    "text",
    [
        None,
        "",
        "drivers: {big: {memory: 4g, cores: 2}}\nchecker: {every: 20m}\n",
        "drivers: {big: {memory: 4g, cores: many}}\nchecker: {every: 20m}\n",  # one part is invalid
        "keep: {samples: 1d}\nunknown: 1\n",
        "keep: {samples: 1d}\nkeep: {samples: 2d}\n",  # a duplicate key
        "drivers: [unclosed\n",
        "- a list\n",
        "\x00",
        b"\xff\xfe\x00",
    ],
)
def test_they_are_those_of_the_whole_project(tmp_path: Path, text: str | bytes | None) -> None:
    project = Project(tmp_path)
    project.streams.mkdir(parents=True)
    if text is not None:
        project.settings_file.write_bytes(text if isinstance(text, bytes) else text.encode())
    assert usable_settings(project) == load_project(project).settings


def test_a_valid_value_is_kept_beside_an_invalid_one(tmp_path: Path) -> None:
    project = Project(tmp_path)
    project.streams.mkdir(parents=True)
    project.settings_file.write_text("checker: {every: 20m}\nkeep: {samples: soon}\n")
    assert usable_settings(project).checker.every.seconds == 1200.0
    assert usable_settings(project).keep == Settings().keep
