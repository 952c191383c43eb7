"""Lines of what was found in a catalog, for `doctor` and `config validate --deep`."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Final

from lakeward.platform.errors import LakewardError
from lakeward.platform.text import count as counted

ASKED: Final = 50
"""Namespaces whose tables are listed."""
SHOWN: Final = 5
"""Namespaces that are named; after as many that fail for another reason than a privilege no further one is asked."""
COMMITS: Final = "tables can be committed, by the newest version only"
CREATES: Final = "tables can be created"
NO_TABLE: Final = "not tested: there is no table yet"
SERVER_LOG: Final = "read the log of the catalog's server"
NOT_LISTED: Final = (
    "grant the login to list them: until then no file of any table is deleted (expiry, orphans), because a table there "
    "may use it; everything else goes on"
)
NOT_ANSWERED: Final = f"{SERVER_LOG}: lists of tables (health, observation) fail until it lists them"


@dataclass(frozen=True)
class Answer:
    """One line of what was found.

    Attributes:
        found, wanted: the actual and the required state, for display.
        next: what helps; if ok, it may be a remark.
        severe: whether nothing works without it.
    """

    name: str
    ok: bool
    found: str
    wanted: str
    next: str = ""
    severe: bool = False


def namespaces(count: int, tables: int, refused: Collection[str], failed: Collection[str] = ()) -> Answer:
    """How much the login sees. Pure.

    Args:
        refused: the namespaces that it may not list.
        failed: those that the server did not list, with its words.
    """
    looked_at = f"the first {ASKED} of {count}" if count > ASKED else str(count)
    found = f"{counted(tables, 'table')} in {looked_at} top-level namespaces"
    if refused:
        more = f" and {len(refused) - SHOWN} more" if len(refused) > SHOWN else ""
        found += f"; not allowed to list {', '.join(sorted(refused)[:SHOWN])}{more}"
    if failed:
        found += f"; not listed: {', '.join(sorted(failed))}"
    next_ = "; ".join([*([NOT_LISTED] if refused else []), *([NOT_ANSWERED] if failed else [])])
    return Answer("catalog namespaces", not (refused or failed), found, "each namespace can be listed", next_)


def error_words(error: Exception) -> str:
    """An error in one line."""
    if isinstance(error, LakewardError):
        return f"{error.what}: {error.why}" if error.why else error.what
    text = str(error)
    return f"{type(error).__name__}: {text.splitlines()[0]}" if text else type(error).__name__
