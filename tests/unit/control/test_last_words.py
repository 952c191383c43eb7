from __future__ import annotations

from pathlib import Path

import pytest

from lakeward.backends.base import Job, Life
from lakeward.control.act import _last_words


@pytest.mark.parametrize(
    ("printed", "words"),
    [
        ("", ""),
        ("WARNING: Using incubator modules: jdk.incubator.vector\n", ""),
        ("WARNING: Using incubator modules: jdk.incubator.vector\nModuleNotFoundError: No module named 'x'\n\n",
         "ModuleNotFoundError: No module named 'x'"),
        ("OutOfMemoryError\nWARNING: careful\n", "OutOfMemoryError"),
    ],
)  # fmt: skip
def test_the_last_words_of_a_driver_are_not_the_jvms_greeting(tmp_path: Path, printed: str, words: str) -> None:
    (tmp_path / "stdout.log").write_text(printed)
    assert _last_words(Job("demo", "t", Life.GONE, None, "here", str(tmp_path))) == words
