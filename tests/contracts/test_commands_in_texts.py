"""Each `lakeward ...` command that a text of the code tells a person to type has the options that it needs."""

from __future__ import annotations

import ast
import importlib
import pkgutil
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from typed import commands, parsed
from typer._click.exceptions import BadParameter, MissingParameter, NoSuchOption, UsageError

import lakeward.operations
from lakeward.operations.operation import Operation

SOURCE = Path(__file__).parents[2] / "src"
VALUE = "7"
"""In place of a value that the code inserts: it fits a name, a number and a path."""
MENTION = re.compile(r"`lakeward [^`]*`?")
"""A command between backticks is the name of a command, in a text about it."""
EVERYWHERE = re.compile(r"--(?:home|project) \S+")
"""Options of each command, which the command line takes out before it parses the others."""

BY_HAND = re.compile(r"""lakeward sql --write ["']""")
"""A statement in quotes of the text itself: a name in backticks is a command of the shell there."""
OF_A_TABLE = re.compile(r"lakeward (?:tables|quality) [a-z-]+ $")

OF_ONE_OR_MANY = {"start", "stop", "restart", "upgrade", "rollback"}
"""Commands of `lakeward streams` that take a stream or a tag, so the command line itself demands neither."""


def _text(node: ast.expr) -> str | None:
    """The text of a literal, with `VALUE` for each inserted value; None for another expression."""
    if isinstance(node, ast.Constant):
        return node.value if isinstance(node.value, str) else None
    if isinstance(node, ast.JoinedStr):
        return "".join(VALUE if isinstance(part, ast.FormattedValue) else str(_text(part)) for part in node.values)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        left, right = _text(node.left), _text(node.right)
        return None if left is None and right is None else f"{left or VALUE}{right or VALUE}"
    return None


def _literals(node: ast.AST) -> Iterator[tuple[int, str]]:
    """The outermost literals, without docstrings."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Expr) and isinstance(child.value, ast.Constant):
            continue
        if isinstance(child, ast.expr) and (text := _text(child)) is not None:
            yield child.lineno, MENTION.sub("", text)
        else:
            yield from _literals(child)


def _kinds(kind: type[Operation[Any]] = Operation) -> Iterator[type[Operation[Any]]]:
    for below in kind.__subclasses__():
        yield below
        yield from _kinds(below)


def _commented() -> set[str]:
    """The operations that refuse to run without a comment."""
    for module in pkgutil.walk_packages(lakeward.operations.__path__, "lakeward.operations."):
        importlib.import_module(module.name)
    return {kind.name.replace("_", "-") for kind in _kinds() if kind.needs_comment}


def _missing(command: str, commented: set[str]) -> str | None:
    """What the command line misses in a command; None if nothing, or if only prose follows it."""
    try:
        words = shlex.split(command)
        parsed(EVERYWHERE.sub("", command))
    except (MissingParameter, NoSuchOption) as error:
        return str(error)
    except (BadParameter, LookupError, ValueError, UsageError):
        words = command.split()  # a place for a value, another text or prose; whether a command exists: test_commands
    if words[1:2] == ["streams"] and words[2:] and words[2] in OF_ONE_OR_MANY and not words[3:]:
        return "it needs a stream or --tag"
    if len(words) < 4 or words[2] not in commented or {"--comment", "--dry-run"} & set(words):
        return None
    inserted = words[-1] == VALUE and len(words) > 4 and not words[-2].startswith("--")  # the comment, as a value
    return None if inserted else "it needs --comment"


def test_operations_that_need_a_comment_are_found() -> None:
    assert {"reset", "skip-batch", "restore", "release", "waive", "erase"} <= _commented()


def test_a_command_without_its_options_is_found() -> None:
    commented = _commented()
    assert _missing("lakeward streams reset 7 --to available", commented) == "it needs --comment"
    assert _missing("lakeward streams skip-batch 7 --batch 7", commented) == "it needs --comment"
    assert _missing("lakeward streams start", commented) == "it needs a stream or --tag"
    assert "to" in str(_missing('lakeward streams reset 7 --comment "expired"', commented))
    assert _missing('lakeward streams reset 7 --to available --comment "expired"', commented) is None


def test_each_command_in_a_text_has_what_it_needs() -> None:
    commented = _commented()
    wrong = [
        f"{file.relative_to(SOURCE)}:{line}: {command}: {missing}"
        for file in sorted(SOURCE.rglob("*.py"))
        for line, text in _literals(ast.parse(file.read_text()))
        for command in commands(text)
        if (missing := _missing(command, commented)) is not None
    ]
    assert wrong == []


def _bare(node: ast.JoinedStr) -> Iterator[str]:
    """The inserted tables that no function made one word of a command line."""
    before = ""
    for part in node.values:
        if isinstance(part, ast.FormattedValue):
            inserted = ast.unparse(part.value)
            if OF_A_TABLE.search(before) and not ("word(" in inserted or inserted.isupper()):
                yield f"{{{inserted}}}"
        before = part.value if isinstance(part, ast.Constant) else ""


def _quoted_by_hand(source: str) -> list[str]:
    tree = ast.parse(source)
    found = [name for node in ast.walk(tree) if isinstance(node, ast.JoinedStr) for name in _bare(node)]
    return found + [text for _, text in _literals(tree) if BY_HAND.search(text)]


def test_a_name_quoted_by_hand_is_found() -> None:
    assert len(_quoted_by_hand("""x = f'lakeward sql --write "RESTORE TABLE {name}"'""")) == 1
    assert _quoted_by_hand("""x = f'lakeward tables why {table}'""") == ["{table}"]
    assert _quoted_by_hand("""x = f'lakeward tables why {word(table)}; lakeward tables plan {TABLE}'""") == []


def test_names_and_statements_are_words_of_a_command_line() -> None:
    wrong = [
        f"{file.relative_to(SOURCE)}: {text}"
        for file in sorted(SOURCE.rglob("*.py"))
        for text in _quoted_by_hand(file.read_text())
    ]
    assert wrong == []
