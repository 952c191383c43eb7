"""The documentation holds together: every link resolves, every decision is in the index, the version is one."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

from lakeward import __version__

ROOT = Path(__file__).parents[2]
PAGES = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md")), *sorted((ROOT / "conf").rglob("*.md"))]
ADR = ROOT / "docs/adr"
RECORDS = sorted(ADR.glob("[0-9]*.md"))
INDEX = (ADR / "README.md").read_text(encoding="utf-8")
TOPICS = [
    "Landing exactly once",
    "Streams and checkpoints",
    "Sources",
    "Sinks",
    "Tables and maintenance",
    "Quality",
    "Airflow and supervision",
    "Stack and packaging",
]


def _prose(text: str) -> str:
    """The page without blocks of code."""
    return re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL)


def _anchors(page: Path) -> set[str]:
    titles = re.findall(r"^#+ (.+)$", _prose(page.read_text(encoding="utf-8")), flags=re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


def _broken(page: Path) -> list[str]:
    found = []
    for target in re.findall(r"\]\(([^)\s]+)\)", _prose(page.read_text(encoding="utf-8"))):
        if re.match(r"[a-z]+:", target):
            continue
        name, _, anchor = target.partition("#")
        file = page if not name else (page.parent / name).resolve()
        if not file.exists() or (anchor and file.suffix == ".md" and anchor not in _anchors(file)):
            found.append(target)
    return found


@pytest.mark.parametrize("page", PAGES, ids=[str(page.relative_to(ROOT)) for page in PAGES])
def test_every_link_of_a_page_resolves(page: Path) -> None:
    assert _broken(page) == []


def test_a_broken_link_is_found(tmp_path: Path) -> None:
    (tmp_path / "there.md").write_text("# A title, told\n")
    page = tmp_path / "page.md"
    page.write_text("[a](there.md#a-title-told) [b](there.md#gone) [c](gone.md) [d](https://example.org)\n")
    assert _broken(page) == ["there.md#gone", "gone.md"]


def test_every_decision_is_in_the_index_exactly_once() -> None:
    assert sorted(re.findall(r"\]\((\d{4}-[^)]+)\)", INDEX)) == [record.name for record in RECORDS]


def test_the_index_is_by_topic_and_each_line_has_number_decision_and_status() -> None:
    assert re.findall(r"^## (.+)$", INDEX, flags=re.MULTILINE) == TOPICS
    rows = [line for line in INDEX.splitlines() if line.startswith("| [")]
    assert len(rows) == len(RECORDS)
    for row in rows:
        assert re.fullmatch(r"\| \[(\d+)\]\(0*\1-[a-z0-9-]+\.md\) \| [^|]{30,}\. \| (accepted|superseded)[^|]* \|", row)


@pytest.mark.parametrize("record", RECORDS, ids=[record.name[:4] for record in RECORDS])
def test_a_decision_has_its_number_in_the_title_and_a_status(record: Path) -> None:
    text = record.read_text(encoding="utf-8")
    assert text.startswith(f"# {int(record.name[:4])}. ")
    assert re.search(r"^Status: (accepted|superseded)", text, flags=re.MULTILINE)


def test_decisions_named_in_the_code_exist() -> None:
    numbers = {record.name[:4] for record in RECORDS}
    for file in (ROOT / "src").rglob("*.py"):
        assert set(re.findall(r"docs/adr/(\d{4})", file.read_text(encoding="utf-8"))) <= numbers, file


def test_package_and_images_have_one_version_and_the_changelog_knows_it() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    lock = tomllib.loads((ROOT / "uv.lock").read_text(encoding="utf-8"))
    (locked,) = [each["version"] for each in lock["package"] if each["name"] == "lakeward"]
    images = re.findall(r"image: lakeward/\w+:(\S+)", (ROOT / "docker-compose.yml").read_text(encoding="utf-8"))
    assert {project["version"], locked, *images} == {__version__}
    changes = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    assert re.findall(r"^## \[([^\]]+)\]", changes, flags=re.MULTILINE)[0] == __version__


def test_every_package_of_the_glossary_exists() -> None:
    text = (ROOT / "docs/reference/glossary.md").read_text(encoding="utf-8")
    named = set(re.findall(r"\| `(lakeward[a-z_.]*)` \|$", text, flags=re.MULTILINE))
    assert named
    assert {name for name in named if not (ROOT / "src" / name.replace(".", "/")).is_dir()} == set()


def test_no_term_of_the_glossary_is_defined_twice() -> None:
    text = (ROOT / "docs/reference/glossary.md").read_text(encoding="utf-8").split("## Words that older")[0]
    terms = re.findall(r"^\| ([a-z -]+) \| [A-Z`(].*\| `lakeward", text, flags=re.MULTILINE)
    assert len(terms) > 40
    assert sorted(terms) == sorted(set(terms))
