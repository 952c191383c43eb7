"""The page of lints is the code's, and each lint has a name of its own, a reason and a remedy."""

from __future__ import annotations

from pathlib import Path

from lakeward.spec.checks.lints import LINTS, MEASURED, page

ROOT = Path(__file__).parents[2]


def test_the_page_of_lints_is_made_from_the_code() -> None:
    assert (ROOT / "docs/reference/lints.md").read_text() == page(), "make schemas"


def test_every_lint_says_what_why_and_what_instead() -> None:
    names = [each.name for each in (*LINTS, MEASURED)]
    assert len(set(names)) == len(names)
    assert all(each.when and each.why and each.remedy for each in (*LINTS, MEASURED))
