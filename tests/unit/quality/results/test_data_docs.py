"""Data Docs: GX's own pages from recorded results, closed to the outside, whole or not there, and gone in time."""

from __future__ import annotations

import os
import re
import stat
import time
import warnings
from datetime import UTC, datetime, timedelta
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from lakeward.platform.errors import Refused
from lakeward.quality.results.data_docs import build, outdated, remove
from lakeward.quality.results.data_docs.pages import Pages, closed


def check(kind: str, state: str, **more: Any) -> dict[str, Any]:
    return {
        "id": kind, "expectation": kind, "severity": "critical", "state": state, "observed": None, "sample": [],
        "unexpected_count": None, "rows": 40, "kwargs": {}, "waived": False, "error": "", **more,
    }  # fmt: skip


EVIL = "<script>alert(1)</script>"
RUN = {
    "table": "nyc.trips", "run": "r1", "suite": "s", "from_snapshot": 5, "to_snapshot": 9, "verdict": "hold",
    "at": datetime(2026, 11, 24, 9, 30, tzinfo=UTC), "note": "", "scope": "increment",
    "checks": [
        check("expect_column_values_to_be_between", "fail", kwargs={"column": "fare", "min_value": 0},
              unexpected_count=3, sample=[{"fare": -7, "id": 1}, {"fare": "***", "id": 2}]),
        check("expect_column_values_to_be_in_set", "fail", kwargs={"column": "zone", "value_set": ["a"]},
              unexpected_count=1, sample=[{"zone": EVIL}]),
        check("expect_table_row_count_to_be_between", "pass", kwargs={"min_value": 1}, observed=40),
        check("expect_volume_as_usual", "pass", kwargs={"tolerance": 3}, observed={"rows": 40}),
        check("expect_column_to_exist", "error", kwargs={"column": "x"}, error="no such column"),
        check("expect_column_most_common_value_to_be_in_set", "fail", kwargs={"column": EVIL, "value_set": [EVIL]},
              observed=[EVIL], error=EVIL),
        check("expect_column_distinct_values_to_be_in_set", "fail", kwargs={"column": "z", "value_set": [EVIL]},
              observed={"value_counts": [{"value": EVIL, "count": 1}]}),
        check("unexpected_rows_expectation", "fail", kwargs={"unexpected_rows_query": f"SELECT '{EVIL}'"},
              observed=EVIL, unexpected_count=1, sample=[{EVIL: EVIL}]),
        check("expect_column_max_to_be_between", "skipped", kwargs={"column": "fare"}),
    ],
}  # fmt: skip


class Text(HTMLParser):
    """The visible words of a page, and its tags."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.words: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self._silent = 0
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        self._silent += tag in ("script", "style")

    def handle_endtag(self, tag: str) -> None:
        self._silent -= tag in ("script", "style")

    def handle_data(self, data: str) -> None:
        if not self._silent:
            self.words.append(data)

    @property
    def text(self) -> str:
        return re.sub(r"\s+", " ", " ".join(self.words))


@pytest.fixture(scope="module", autouse=True)
def great_expectations() -> None:
    """Its import, of modules Python deprecates, is no matter of these tests."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        Pages()


@pytest.fixture(scope="module")
def site(great_expectations: None, tmp_path_factory: pytest.TempPathFactory) -> Path:
    runs = [RUN, {**RUN, "run": "r0", "verdict": "pass"}]
    return build({"nyc.trips": runs}, tmp_path_factory.mktemp("d") / "docs", 20)


def pages(site: Path) -> list[Path]:
    return sorted(site.parent.glob("validations/**/*.html"))


def test_each_run_has_gx_s_page_with_what_was_found(site: Path) -> None:
    first, second = pages(site)
    folder = site.parent / "validations" / "nyc" / "trips"
    assert (first, second) == tuple(folder / run / "20261124T093000" / "nyc.trips.html" for run in ("r0", "r1"))
    text = Text(second.read_text()).text
    assert "Must have greater than or equal to 1 rows." in text
    assert "3 unexpected values found. 7.5% of 40 total rows." in text
    assert "-7" in text and "***" in text
    assert "volume as usual (tolerance 3)" in text
    assert "no such column" in text
    assert "Evaluated Expectations 8" in text and "Successful Expectations 2" in text
    assert "snapshots 5 (exclusive) to 9: hold" in text


def test_the_index_tells_verdict_severity_and_what_did_not_pass(site: Path) -> None:
    told = Text(site.read_text())
    assert "expect_column_values_to_be_between(fare), critical, 3 rows" in told.text
    assert "expect_column_to_exist(x), critical, could not be computed" in told.text
    links = [site.parent / str(attrs["href"]) for tag, attrs in told.tags if tag == "a"]
    assert [each.is_file() for each in links] == [True, True]
    home = next(attrs["href"] for tag, attrs in Text(links[0].read_text()).tags if tag == "a")
    assert (links[0].parent / str(home)).resolve() == site


def test_no_page_may_load_or_run_anything_and_values_are_no_tags(site: Path) -> None:
    for page in (site, *pages(site)):
        html = page.read_text()
        head = Text(html).tags
        first = next(index for index, (tag, _) in enumerate(head) if tag not in ("html", "head"))
        assert head[first][0] == "meta", "the policy stands before whatever could be loaded"
        assert "default-src 'none'" in str(head[first][1]["content"])
        assert EVIL not in html
    with pytest.raises(ValueError, match="no head"):
        closed("<html></html>")


def test_pages_are_for_their_owner_alone(site: Path) -> None:
    assert stat.S_IMODE(site.parent.stat().st_mode) == 0o700
    assert {stat.S_IMODE(page.stat().st_mode) for page in (site, *pages(site))} == {0o600}


def test_a_new_site_takes_the_place_of_the_old_and_of_nothing_else(tmp_path: Path) -> None:
    folder = tmp_path / "docs"
    build({"n.a": [RUN]}, folder, 20)
    index = build({"../n.b": [{**RUN, "table": "../n.b", "run": "../../r"}]}, folder, 20)
    assert len(pages(index)) == 1
    assert [each.name for each in tmp_path.iterdir()] == ["docs"], "no name leads out of the folder"
    assert "n.a" not in index.read_text()
    assert list(tmp_path.iterdir()) == [folder]
    other = tmp_path / "mine"
    other.mkdir()
    (other / "letter.txt").write_text("keep me")
    with pytest.raises(Refused, match="Cannot write Data Docs"):
        build({"n.a": [RUN]}, other, 20)
    assert not remove(other)
    assert (other / "letter.txt").read_text() == "keep me"


def test_a_site_that_cannot_be_made_leaves_the_old_one(tmp_path: Path) -> None:
    folder = tmp_path / "docs"
    index = build({"n.a": [RUN]}, folder, 20)
    with pytest.raises(KeyError):
        build({"n.a": [{"table": "n.a"}]}, folder, 20)
    assert index.exists()
    assert list(tmp_path.iterdir()) == [folder]


def test_a_site_goes_when_its_examples_are_past_their_keep_time(tmp_path: Path) -> None:
    folder = tmp_path / "docs"
    assert not outdated(folder, timedelta(days=1))
    index = build({"n.a": []}, folder, 20)
    assert not outdated(folder, timedelta(days=1))
    old = time.time() - 2 * 86400
    for each in folder.iterdir():
        os.utime(each, (old, old))
    assert outdated(folder, timedelta(days=1))
    assert remove(folder)
    assert not index.exists()
