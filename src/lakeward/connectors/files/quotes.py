"""Quotes and line ends of a CSV file: finds what Spark's reader would alter or join without a word, before it is read.

Five things pass that reader: a quoted value without an end takes all rows up to the end of the file, one with a
quote that is not doubled takes those up to the next delimiter, line ends inside quotes become `\\n` where the lines
of the file end otherwise, line ends of another kind than the first one stay in values, and a NUL before a doubled
quote is dropped. None of them can be seen in the values that it returns.

A file whose quoted values end within their lines costs one regular expression a chunk; the others are read field by
field.
"""

from __future__ import annotations

import codecs
import re
from typing import IO

_CHUNK = 1 << 20
_LONGEST = 1 << 26
"""Bytes of a row that are held to find its end: more is a file without the quote or the line ends that it should have,
and Spark would hold it as one value, too."""
_PAIRED = re.compile(rb'(?:[^"]*+(?<=[,\r\n])"[^"\r\n]*+(?:""[^"\r\n]*+)*+"(?=[,\r\n]|\Z))*+[^"]*+')
"""Every quote is of a quoted value within its line: none can span lines. To count quotes is not enough: in `5"x,"y` the
second one opens a value, because the first one is a part of an unquoted value."""
_OPENING = re.compile(rb'(?<=[,\r\n])"(?:([^"]*+(?:""[^"]*+)*+)"(?=[,\r\n]))?')
"""The beginning of a quoted value; the value as a whole where its end is plain to see."""
_QUOTED = re.compile(rb'"[^"]*+(?:""[^"]*+)*+("?)')
_FOLLOWS = re.compile(rb"[\x01-\x09\x0b\x0c\x0e-\x20]*+(?:[,\r\n]|\Z)")
"""After the closing quote: blanks, which Spark leaves out, and the end of the value."""
_LINE_END = re.compile(rb"\r\n|[\r\n]")
_LF_ALONE = re.compile(rb"(?<!\r)\n")
_NAMES = {b"\r\n": "CR LF", b"\r": "CR", b"\n": "LF"}


def fault(file: IO[bytes]) -> str | None:
    """What is wrong with the quotes of a CSV file.

    Args:
        file: the bytes of the file, uncompressed, at the beginning.

    Returns:
        A clause with the line, counted from 1; None if every value would be read as it is.
    """
    ends, head = b"", b""
    line, held = 0, b"\n"  # a line end before the first line: each value has a delimiter before it
    kept = 1  # bytes of it that were looked at
    while True:
        more = file.read(max(_CHUNK, len(held)))  # twice as much each time: what is held is read again
        data = held + (more.removeprefix(codecs.BOM_UTF8) if line == 0 else more)
        if not ends:
            head += more
            first = _LINE_END.search(head)
            if first is not None and (first[0] != b"\r" or first.end() < len(head) or not more):
                ends = first[0]
            head = head[-1:]  # a CR whose LF may come
        # What follows the last line end may go on in the next chunk; so may a CR that is the last byte.
        cut = max(data.rfind(b"\n"), data.rfind(b"\r", 0, -1)) + 1 if more else len(data)
        done = cut
        if (lost := data.find(b'\0""')) >= 0:
            return f"line {line + _lines(data, lost)}: a NUL character before a doubled quote would be lost"
        if data.find(b'"', 0, cut) >= 0 and not _PAIRED.fullmatch(data, 0, cut):
            done, words = _scan(data, kept, last=not more, ends=ends)
        else:
            done, words = _alike(data, kept, cut, ends)
        if words is not None:
            return f"line {line + _lines(data, done)}: {words}"
        if not more:
            return None
        looked, done = done, _delimiter(data, done)
        kept = looked - done - data.endswith(b"\r", 0, looked)  # the LF of a CR may come
        line += _lines(data, done)
        held = data[done:]
        if len(held) > _LONGEST:
            at = line + _lines(held, 2 if held.startswith(b"\r\n") else 1)
            return f"line {at}: its row is longer than {_LONGEST >> 20} MiB: a quote or the line ends are missing"


def _alike(data: bytes, begin: int, end: int, ends: bytes) -> tuple[int, str | None]:
    """Whether lines without quotes end as the first one does: their end, or the place of a fault and its words."""
    if ends == b"\r\n":
        if data.count(b"\n", begin, end) == data.count(ends, max(begin - 1, 0), end):
            return end, None
        found = _LF_ALONE.search(data, begin, end)
        place, other = (-1 if found is None else found.start()), b"\n"
    else:
        other = b"\r\n" if ends == b"\n" else b"\n"
        place = data.find(other, begin, end) if ends else -1
    if place < 0:
        return end, None
    if other == b"\n" and place and data[place - 1 : place] == b"\r":
        place, other = place - 1, b"\r\n"
    return (
        place,
        f"it ends in {_NAMES[other]}, and the first one in {_NAMES[ends]}: its end would become part of a value",
    )


def _scan(data: bytes, place: int, *, last: bool, ends: bytes) -> tuple[int, str | None]:
    """Read the quoted values from a place: up to where they are read, or the place of a fault and its words."""
    mixed = _alike(data, place, len(data), ends)[1] is not None  # perhaps only inside quotes, where it may be
    while (opening := _OPENING.search(data, place)) is not None:
        begin, plain = opening.start(), opening[1]
        if mixed and (found := _alike(data, place, begin, ends))[1] is not None:
            return found
        if plain is not None and (ends == b"\n" or ends not in plain):
            place = opening.end()
            continue
        quoted = _QUOTED.match(data, begin)
        place = len(data) if quoted is None else quoted.end()
        if place == len(data) and not last:
            return begin, None
        if quoted is None or not quoted[1]:
            return begin, "a quoted value has no end: the file is cut off, or a quote is missing"
        inside = quoted[0]
        spans = b"\n" in inside or b"\r" in inside
        follows = _FOLLOWS.match(data, place)
        if follows is not None and not last and not follows[0].endswith((b",", b"\r", b"\n")):
            return begin, None  # what follows the blanks is in the next chunk
        if follows is None:
            if spans:
                return begin, "a quoted value spans lines and has a quote that is not doubled"
        elif spans and ends != b"\n" and ends in inside:
            name = _NAMES[ends]
            return begin, f"{name} inside quotes would become LF, because the lines of the file end in {name}"
    return _alike(data, place, len(data), ends) if mixed else (len(data), None)


def _delimiter(data: bytes, place: int) -> int:
    """Where the delimiter before a place begins: what is kept, so that a value that begins there is recognized."""
    return place - 2 if data.endswith(b"\r\n", 0, place) else max(place - 1, 0)


def _lines(data: bytes, end: int) -> int:
    """The line ends before a place."""
    return data.count(b"\n", 0, end) + data.count(b"\r", 0, end) - data.count(b"\r\n", 0, end)
