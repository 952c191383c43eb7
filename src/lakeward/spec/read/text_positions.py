"""Positions of the characters of a YAML text in its file, through indents, folded lines and escapes."""

from __future__ import annotations

import re
from dataclasses import dataclass

Path_ = tuple[str | int, ...]
"""Keys and indexes from the root of a document to a value."""

_PROPERTIES = re.compile(r"(?:[&!]\S*\s+)*")  # an anchor and a tag precede the text
_FOLD = r"(?P<fold>[ \t]*\n[ \t\n]*)"
_ONE = r"(?P<same>[^\n])"
_UNITS: dict[str | None, re.Pattern[str]] = {
    None: re.compile(f"{_FOLD}|{_ONE}"),
    "'": re.compile(f"''|{_FOLD}|{_ONE}"),
    '"': re.compile(rf"\\(?:x..|u.{{4}}|U.{{8}}|(?P<joined>\n[ \t\n]*)|.)|{_FOLD}|{_ONE}"),
}
"""Style of a text -> the source of one character: the character, an escape, or a line end with blanks around it."""


@dataclass(frozen=True)
class Place:
    """A 1-based position in a file."""

    line: int
    column: int


def place_of(text: str, offset: int) -> Place:
    """The position of the character at `offset`."""
    return Place(text.count("\n", 0, offset) + 1, offset - text.rfind("\n", 0, offset))


def letters(file: str, start: int, style: str | None, value: str) -> list[int] | None:
    """The offset in `file` of each character of `value`.

    Args:
        file: the whole YAML file.
        start: offset of the text, or of its anchor or tag.
        style: `|`, `>`, `'`, `"`, or None for a plain one.
        value: the text as YAML reads it.

    Returns:
        One offset per character; None if file and value cannot be matched.
    """
    before = _PROPERTIES.match(file, start)
    begin = before.end() if before else start
    positions = _block(file, begin, value) if style in ("|", ">") else _flow(file, begin, style, value)
    return positions if positions is not None and len(positions) == len(value) else None


def _flow(file: str, begin: int, style: str | None, value: str) -> list[int] | None:
    positions: list[int] = []
    at = begin + (style is not None)
    while len(positions) < len(value):
        unit = _UNITS[style].match(file, at)
        if unit is None or (unit["same"] and unit["same"] != value[len(positions)]):
            return None
        further = unit[0].count("\n") - 1  # the first line end is a blank, each further one is a line end
        joined = unit["joined"] is not None if style == '"' else False  # but after a \ the first is nothing
        positions += [at] * (further if joined else max(further, 1))
        at = unit.end()
    return positions


def _block(file: str, begin: int, value: str) -> list[int] | None:
    positions: list[int] = []
    indent = _indent(file, begin, value)
    text = value.rstrip("\n")
    at = file.find("\n", begin) + 1
    while len(positions) < len(text) and at:
        end = file.find("\n", at)
        line = file[at : end if end >= 0 else len(file)][indent:]
        if line.strip(" "):
            place = value.find(line, len(positions))
            if place < 0 or value[len(positions) : place].strip(" \n"):
                return None
            positions += [at + indent] * (place - len(positions))  # line ends and blank lines before this one
            positions += range(at + indent, at + indent + len(line))
        at = end + 1
    return positions + positions[-1:] * (len(value) - len(positions))


def _indent(file: str, begin: int, value: str) -> int:
    """The indent of a block: the blanks that its first line has in the file but not in the value."""
    written = next((line for line in file[begin:].split("\n")[1:] if line.strip(" ")), "")
    read = next((line for line in value.split("\n") if line.strip(" ")), "")
    return max(0, len(written) - len(written.lstrip(" ")) - len(read) + len(read.lstrip(" ")))
