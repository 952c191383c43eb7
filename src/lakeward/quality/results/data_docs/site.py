"""The folder of Data Docs: an index and a page for each run, built in a temporary folder and swapped in at once."""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from lakeward.platform import private
from lakeward.platform.errors import Refused
from lakeward.quality.results.data_docs.pages import STYLES, Pages, closed
from lakeward.quality.results.data_docs.results import moment
from lakeward.quality.results.records import CheckDocument, RunDocument

Run = RunDocument
"""A recorded run with its checks, in the form of `records.recorded`."""


@dataclass(frozen=True)
class IndexLine:
    """A run's line of the index. `bad`: the checks that failed or could not be computed, a sentence each."""

    page: str
    at: str
    verdict: str
    note: str
    checks: int
    bad: list[str]
    snapshot: int | None


_MARK = ".lakeward-data-docs"


def build(tables: Mapping[str, Sequence[Run]], folder: Path, most: int) -> Path:
    """Build the site and replace the existing one; returns the path of the index.

    The cost depends on the given runs, not on past ones: GX's own index reads every stored result.

    Args:
        tables: table -> its newest runs, newest first.
        folder: the site's folder; readable by its owner only, because pages show values of rows.
        most: the requested number of runs of a table.

    Raises:
        Refused: the folder has other content.
    """
    if folder.exists() and any(folder.iterdir()) and not (folder / _MARK).exists():
        raise Refused(f"Cannot write Data Docs to {folder}", why="The folder has other files, which would be deleted.",
                      next="name an empty folder: --to DIR", code="LW-5012")  # fmt: skip
    folder.parent.mkdir(parents=True, exist_ok=True)
    made = Path(tempfile.mkdtemp(dir=folder.parent, prefix=f".{folder.name}-"))  # mode 0700
    try:
        pages = Pages()
        listed = {table: [_write(made, pages, run) for run in runs] for table, runs in tables.items()}
        private.write(made / "index.html", _index(listed, most))
        private.write(made / _MARK, "")
        old = Path(tempfile.mkdtemp(dir=folder.parent, prefix=f".{folder.name}-"))
        try:
            if folder.exists():
                folder.replace(old / "old")
            made.replace(folder)
        finally:
            shutil.rmtree(old, ignore_errors=True)
    finally:
        shutil.rmtree(made, ignore_errors=True)
    return folder / "index.html"


def remove(folder: Path) -> bool:
    """Remove a site. Returns whether there was one; other folders are left alone."""
    if not (folder / _MARK).exists():
        return False
    shutil.rmtree(folder, ignore_errors=True)
    return True


def outdated(folder: Path, keep: timedelta) -> bool:
    """Whether a site exists that is older than the retention of row values."""
    mark = folder / _MARK
    return mark.exists() and time.time() - mark.stat().st_mtime > keep.total_seconds()


def _write(folder: Path, pages: Pages, run: RunDocument) -> IndexLine:
    """Write the page of a run; returns its line of the index."""
    at = moment(run["at"]).astimezone(UTC)
    table = [_safe(part) for part in str(run["table"]).split(".")]  # any text: a folder, not a name to resolve
    # At GX's own folder depth: its page links to the index by a relative path.
    place = Path("validations", *table, _safe(run["run"]), f"{at:%Y%m%dT%H%M%S}", f"{'.'.join(table)}.html")
    private.write(private.folder(folder / place.parent) / place.name, pages.page(run))
    bad = [check for check in run["checks"] if check["state"] in ("fail", "error")]
    return IndexLine(
        page=place.as_posix(),
        at=f"{at:%Y-%m-%d %H:%M:%S}",
        verdict=run["verdict"],
        note=run.get("note") or "",
        checks=len(run["checks"]),
        bad=[_line(check) for check in bad],
        snapshot=run["to_snapshot"],
    )


def _line(check: CheckDocument) -> str:
    column = (check.get("kwargs") or {}).get("column")
    name = f"{check['expectation']}({column})" if column else str(check["expectation"])
    count = check.get("unexpected_count")
    found = "could not be computed" if check["state"] == "error" else f"{count:,} rows" if count is not None else ""
    parts = [name, str(check["severity"]), found, "waived" if check.get("waived") else ""]
    return ", ".join(part for part in parts if part)


def _index(tables: Mapping[str, Sequence[IndexLine]], most: int) -> str:
    from jinja2 import Environment, FileSystemLoader

    here = Environment(loader=FileSystemLoader(Path(__file__).parent), autoescape=True)
    styles = (STYLES / "data_docs_custom_styles.css").read_text()
    html = here.get_template("index.html.j2").render(
        tables=tables, most=most, at=f"{datetime.now(UTC):%Y-%m-%d %H:%M}", styles=_trusted(styles)
    )
    return closed(html)


def _trusted(text: str) -> Any:
    from markupsafe import Markup

    return Markup(text)  # noqa: S704  Lakeward's own style sheet


def _safe(text: str) -> str:
    """A safe file name: it cannot lead out of the folder."""
    return "".join(each if each.isalnum() or each in "._-" else "_" for each in text).lstrip(".") or "_"
