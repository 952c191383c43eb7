from __future__ import annotations

import os
from pathlib import Path
from subprocess import run

from lakeward.jars import archive, find_java


def test_the_session_runs_on_the_archive_that_make_jars_left(spark):
    made = archive.file()
    assert made.is_file(), "make jars leaves it"
    jvm = spark._jvm.java.lang.ProcessHandle.current().pid()
    assert str(made) in Path(f"/proc/{jvm}/maps").read_text()


def test_an_archive_that_does_not_fit_is_left_aside_without_a_word(tmp_path):
    wrong = tmp_path / "spark.jsa"
    wrong.write_bytes(os.urandom(4096))
    done = run(
        [find_java().binary, f"-XX:SharedArchiveFile={wrong}", *archive.QUIET, "-version"],
        capture_output=True,
        text=True,
    )
    assert (done.returncode, done.stdout) == (0, "")
    assert "version" in done.stderr
