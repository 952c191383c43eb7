"""The commands of a text, as a person types them, and whether the command line takes them."""

from __future__ import annotations

import re
import shlex
from functools import cache
from typing import Any

from lakeward.cli.app import command_tree

_COMMAND = re.compile(r"""lakeward (?:"[^"]*"|(?<=--write )'[^']*'|(?!\blakeward )[^;"])+""")
_END = re.compile(r"   |, then|,? or |\)| {2}#")


def commands(text: str) -> list[str]:
    """Each `lakeward ...` in a text without the prose around it: prose follows after three spaces or a semicolon."""
    return [_cut(match[0]) for match in _COMMAND.finditer(text)]


def _cut(found: str) -> str:
    at, quote = 0, "'" if "--write '" in found else '"'
    while (end := _END.search(found, at)) and found[: end.start()].count(quote) % 2:
        at = end.end()  # within quotes
    return (found[: end.start()] if end else found).strip(" ,")


@cache
def parsed(command: str) -> None:
    """Parse a command by the real command line, without running it.

    Raises:
        LookupError: there is no such command.
        UsageError: of click; it does not take these arguments.
    """
    words = shlex.split(command)[1:]
    group: Any = command_tree()  # of click, which typer brings along
    context = group.context_class(group, info_name="lakeward")
    while hasattr(group, "get_command"):
        name = words.pop(0)
        found = group.get_command(context, name)
        if found is None:
            raise LookupError(f"no command {name} in {command}")
        group = found
    group.make_context(group.name, words, parent=context)
