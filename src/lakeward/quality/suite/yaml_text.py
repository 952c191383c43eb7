"""Writes a suite file as YAML: one paragraph an expectation, its comment above it."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.comments import CommentedMap, CommentedSeq
from ruamel.yaml.scalarstring import DoubleQuotedScalarString

SCHEMA = "# yaml-language-server: $schema=../docs/reference/suite.schema.json"
_WIDTH = 110
_LINE = 90  # maximum characters of a mapping on one line


def suite_text(
    document: Mapping[str, Any], head: Sequence[str] = (), comments: Mapping[int, Sequence[str]] | None = None
) -> str:
    """The text of the file.

    Args:
        document: its content, as JSON data.
        head: comment lines at the top.
        comments: index of an expectation -> comment lines above it.
    """
    top = {key: value for key, value in document.items() if key != "expectations"}
    expectations = "expectations:" if document["expectations"] else "expectations: []"
    lines = [*(_comment(each) for each in head), _yaml(top).rstrip("\n"), expectations]
    for index, expectation in enumerate(document["expectations"]):
        if index:
            lines.append("")
        lines += [f"  {_comment(text)}" for text in (comments or {}).get(index, ())]
        lines += [f"  {line}" if line else "" for line in _yaml([expectation]).rstrip("\n").split("\n")]
    return "\n".join(lines) + "\n"


def _comment(text: str) -> str:
    return f"# {' '.join(text.split())}"


def _yaml(value: Any) -> str:
    yaml = YAML()
    yaml.width = _WIDTH
    stream = io.StringIO()
    yaml.dump(_styled(value, 0), stream)
    return stream.getvalue()


def _styled(value: Any, depth: int) -> Any:
    """Short mappings and lists below an expectation are written on one line."""
    if isinstance(value, Mapping):
        made: Any = CommentedMap((_quoted(key), _styled(item, depth + 1)) for key, item in value.items())
    elif isinstance(value, list | tuple):
        made = CommentedSeq(_styled(item, depth + 1) for item in value)
    else:
        return _quoted(value)
    if (depth >= (2 if isinstance(value, Mapping) else 1) and len(str(value)) <= _LINE) or not value:
        made.fa.set_flow_style()
    return made


def _quoted(value: Any) -> Any:
    """Quote text that ruamel would write plain and read back differently: in flow style a leading `?` or `:` is YAML
    syntax, and NEL is the end of a line.
    """
    needs_quotes = isinstance(value, str) and (value.startswith(("?", ":")) or "\x85" in value)
    return DoubleQuotedScalarString(value) if needs_quotes else value
