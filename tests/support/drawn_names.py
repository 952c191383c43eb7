"""Draws names that a system allows: tables of Iceberg, Delta and PostgreSQL, columns, topics. And what none allows."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

from lakeward.spec.sql.names import dotted

LETTERS = "abcXYZ019_"
ODD = " -'\"`%\\$@!+=,;&|~^<>{}[]()." + "ßé表я😀"
RESERVED = ("select", "order", "table", "2024", "1e5", "NULL", "from", "lake", "main", "true", "values", "position")
NO_TABLES = (
    "flights", "nyc.", ".flights", "nyc..flights", "nyc.a/b", "nyc.a#b", "nyc.a?b", "nyc.a:b", "nyc.a*", "nyc. a",
    "nyc.a\tb", "nyc.`a", "nyc.a.", "`a.b`.c", "nyc.``", "nyc." + "x" * 200, "nyc." + "表" * 67, "nyc.flights.files",
    "nyc.flights.BRANCH_x", "..nyc", "nyc.`..`",
)  # fmt: skip
"""Texts that no lake takes as the name of a table."""


@dataclass(frozen=True)
class Drawn:
    """The names of one stream. `table`: its name with the namespaces; `columns`: two of them, the first a number."""

    sink: str
    table: str
    topic: str
    columns: tuple[str, str]


def stream(draw: Random, sink: str, unique: str) -> Drawn:
    """Names of a stream into a sink: `iceberg`, `delta` or `postgres`; `unique` is a part of table and topic."""
    first = column(draw)
    second = next(each for each in iter(lambda: column(draw), None) if each.lower() != first.lower())
    if sink == "iceberg":
        outer = tuple(_part(draw, dots=False) for _ in range(draw.randint(0, 2)))
        parts = (f"n{unique}", *outer, _part(draw, dots=draw.random() < 0.3))
    elif sink == "delta":
        parts = (f"n{unique}", _word(draw, "abcXYZ019_", 20))
    else:
        parts = (f"n{unique}{_part(draw, dots=False)}", _part(draw, dots=draw.random() < 0.3))
    return Drawn(sink, dotted(parts), topic(draw, unique), (first, second))


def column(draw: Random) -> str:
    """The name of a column: of any characters but those that Delta refuses without column mapping."""
    if draw.random() < 0.3:
        return draw.choice(RESERVED)
    return _word(draw, LETTERS + "-'\"`%\\$@!+&|~^<>[].ßé表я😀#?/:*", draw.choice((1, 5, 40)))[:40]


def topic(draw: Random, unique: str) -> str:
    """The name of a topic: letters, digits, dots, underscores and hyphens."""
    return f"{_word(draw, 'abXY01._-', draw.choice((1, 9, 60)))}.{unique}"


def _part(draw: Random, *, dots: bool) -> str:
    if draw.random() < 0.3:
        return draw.choice(RESERVED)
    chosen = _word(draw, LETTERS + (ODD if dots else ODD.replace(".", "")), draw.choice((1, 5, 12, 30)))
    while len(chosen.encode()) > 45:
        chosen = chosen[:-1]
    chosen = chosen.strip()
    return chosen if chosen not in ("", ".", "..") else "a"


def _word(draw: Random, letters: str, most: int) -> str:
    return "".join(draw.choice(letters) for _ in range(draw.randint(1, most)))
