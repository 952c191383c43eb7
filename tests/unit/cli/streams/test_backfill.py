"""`streams backfill`: what is asked for, and how it is told."""

from __future__ import annotations

from typing import Any

from lakeward.operations.backfill.operation import data_of, landed, planned
from lakeward.operations.backfill.work import Report


def test_what_cannot_be_done_is_said_before_anything_starts(site: Any) -> None:
    answer = site.lakeward("streams", "backfill", "flights", "--from", "earliest", "--comment", "x")
    assert answer.code == 4
    assert "its sink only appends" in answer.err and "--into nyc.flights_again" in answer.err

    answer = site.lakeward("streams", "backfill", "flights", "--from", "earliest")
    assert answer.code == 2
    assert "--comment" in answer.err

    words = ("--from", "2100-01-01T00:00Z", "--into", "nyc.again", "--comment", "x")
    answer = site.lakeward("streams", "backfill", "flights", *words)
    assert answer.code == 2
    assert "The range of the backfill of stream flights is empty" in answer.err


def test_options_that_do_not_go_together_are_named(site: Any, tmp_path: Any) -> None:
    def said(*words: str) -> str:
        answer = site.lakeward("streams", "backfill", "flights", *words, "--comment", "x")
        assert answer.code == 2
        return str(answer.err)

    assert "where the range begins, or --from-files" in said()
    assert "needs --from-files" in said("--from", "earliest", "--format", "json")
    assert "leave out --into" in said("--from", "earliest", "--overwrite", "--into", "nyc.again")
    assert "leave out --from-files" in said("--from-files", "x", "--overwrite")
    into = ("--into", "nyc.again", "--from-files")
    assert "There are no files at" in said(*into, str(tmp_path / "none"))
    (tmp_path / "1.csv").write_text("x")
    assert "cannot read files of format csv" in said(*into, str(tmp_path / "1.csv"))
    assert "Cannot read soon as a time" in said(*into, str(tmp_path / "1.csv"), "--from", "soon")
    (tmp_path / "1").write_text("x")
    assert "Cannot derive the format of the files" in said(*into, str(tmp_path))


def test_what_a_person_reads() -> None:
    found = Report("s", 3, "a.n", "s@backfill-1", "{1}", "{9}", batches=2, consumed=8, landed=7, quarantined=1)
    data = data_of(found)
    assert (data["from"], data["to"], data["landed"]) == ("{1}", "{9}", 7)
    assert landed(found) == "7 rows of 8 records landed in a.n as s@backfill-1; 1 quarantined"
    again = Report("s", 3, "a.n", "s@backfill-1", "{1}", "{9}", begun="{4}")
    assert landed(again) == "a.n already has the range, as s@backfill-1"
    assert planned(again) == "land {1} to {9} in a.n as s@backfill-1, continued from {4}"
