"""A local path in every spelling is one file."""

from __future__ import annotations

from pathlib import Path

import pytest

from lakeward.connectors.file_access import FileAccess
from lakeward.spec.model.file_paths import here, local


@pytest.mark.parametrize("scheme", ["", "file:", "file://"])
def test_a_file_is_written_and_read_by_any_spelling(tmp_path: Path, scheme: str) -> None:
    files = FileAccess()
    files.write(f"{scheme}{tmp_path}/a/b", b"text")
    assert (tmp_path / "a/b").read_bytes() == b"text"
    assert files.text(f"{scheme}{tmp_path}/a/b") == "text"
    assert files.names(f"{scheme}{tmp_path}/a") == ["b"]
    files.move(f"{scheme}{tmp_path}/a/b", f"{scheme}{tmp_path}/c")
    assert files.exists(f"{scheme}{tmp_path}/c") and not files.exists(f"{scheme}{tmp_path}/a/b")


@pytest.mark.parametrize("path", ["s3://b/k", "s3a://b/k", "hdfs://h/p", "relative", "file:relative"])
def test_other_paths_stay(path: str) -> None:
    assert local(path) == path
    assert here(path) is ("://" not in path)
