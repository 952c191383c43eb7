"""A YAML file as plain data, with the position of every key and value.

ruamel's safe composer reads the file; this module builds the data. No tag creates an object. A duplicate key, and
anything that is not plain JSON-like data, is a problem. Dates remain text; the models convert them.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.composer import Composer
from ruamel.yaml.error import MarkedYAMLError, YAMLError
from ruamel.yaml.events import AliasEvent
from ruamel.yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

from lakeward.spec.read.text_positions import Path_, Place, letters, place_of

__all__ = ["Document", "Fault", "Path_", "Place", "Written", "place_of", "read_document"]

_TAG = "tag:yaml.org,2002:"
_DIRECTIVE = re.compile(r"((?:[ \t]*(?:#.*)?\n)*)%YAML[ \t]+([0-9.]+)")
_NO_TEXT = re.compile("[\x00\ud800-\udfff]")  # not allowed in a file name, in UTF-8, or in PostgreSQL
_KINDS: dict[type[Node], str] = {MappingNode: "map", SequenceNode: "seq"}
_MOST_VALUES = 20_000  # aliases can make a small file enormous; no real spec is near this limit
_DEEPEST = 40
_TOO_MANY = (
    f"this file is too large for a spec: it has more than {_MOST_VALUES:,} values, or its aliases multiply; a set of a "
    "suite that is so long belongs into a table: expect_keys_to_be_in_reference compares with it"
)


@dataclass(frozen=True)
class Written:
    """A text in the file: offset of its start, its YAML style, and its value."""

    start: int
    style: str | None
    value: str


@dataclass(frozen=True)
class Fault:
    """A problem of the file as YAML."""

    place: Place
    path: Path_
    message: str
    value: Any = None


@dataclass
class Document:
    """The data of one file, with positions.

    Attributes:
        data: mappings, lists, text, numbers, booleans, None.
        values, keys: path -> position of the value, and of its key. A value behind an alias (`*a`) has the position
            of the alias.
        texts: path -> how the text is written.
        faults: YAML problems; with a syntax error `data` is None.
    """

    text: str
    data: Any = None
    values: dict[Path_, Place] = field(default_factory=dict)
    keys: dict[Path_, Place] = field(default_factory=dict)
    texts: dict[Path_, Written] = field(default_factory=dict)
    left_out: set[Path_] = field(default_factory=set)
    faults: list[Fault] = field(default_factory=list)

    def has(self, path: Path_) -> bool:
        """Whether the file has exactly this path."""
        return path in self.values

    def place(self, path: Path_, *, key: bool = False) -> Place:
        """The position of `path`: of its value (or its key), else of the nearest parent in the file.

        An omitted value has the position of its key.
        """
        for length in range(len(path), -1, -1):
            part = path[:length]
            if (key or length < len(path) or part in self.left_out) and part in self.keys:
                return self.keys[part]
            if part in self.values:
                return self.values[part]
        return Place(1, 1)

    def inside(self, path: Path_, line: int | None, column: int | None) -> Place:
        """The file position of (line, column) in the text at `path`; the start of the text if unknown."""
        written = self.texts.get(path)
        if line is None or written is None:
            return self.place(path)
        before = written.value.split("\n")[: line - 1]
        letter = sum(len(line_text) + 1 for line_text in before) + (column or 1) - 1
        offsets = letters(self.text, written.start, written.style, written.value)
        if not offsets:
            return self.place(path)
        return place_of(self.text, offsets[min(letter, len(offsets) - 1)])


class _Composer(Composer):
    """Keeps the position of an alias; ruamel only has the position of its target."""

    def compose_node(self, parent: Any, index: Any) -> Any:
        if not self.parser.check_event(AliasEvent):
            return super().compose_node(parent, index)
        mark = self.parser.peek_event().start_mark
        return _Alias(super().compose_node(parent, index), mark)


@dataclass(frozen=True, eq=False)
class _Alias:
    node: Any
    start_mark: Any


def read_document(text: str) -> Document:
    """Read one YAML file. Never raises for its content: faults are listed in the document."""
    document = Document(text)
    older = _DIRECTIVE.match(text)
    if older is not None and older[2] != "1.2":
        message = f"YAML {older[2]} reads yes, no and 010 differently; remove the %YAML line"
        document.faults.append(Fault(Place(older[1].count("\n") + 1, 1), (), message))
        return document
    try:
        yaml = YAML(typ="safe", pure=True)
        yaml.Composer = _Composer
        root = yaml.compose(text)
    except MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        place = Place(mark.line + 1, mark.column + 1) if mark else Place(1, 1)
        document.faults.append(Fault(place, (), f"this is not YAML: {_plain(error)}"))
        return document
    except (YAMLError, ValueError, RecursionError) as error:
        first = str(error).splitlines()[0] if str(error) else type(error).__name__
        document.faults.append(Fault(Place(1, 1), (), f"this is not YAML: {first}"))
        return document
    if root is None:
        document.data = {}
        return document
    _Builder(document).build(root)
    return document


def _plain(error: MarkedYAMLError) -> str:
    problem = str(error.problem or "it cannot be read").removeprefix("but ")
    if "cannot start any token" in problem and r"\t" in problem:
        return "a tab cannot indent; use spaces"
    if "mapping values are not allowed" in problem:
        return "a second ': ' on this line; put the text in quotes"
    context = f" {error.context}" if error.context else ""
    return f"{problem}{context}"


class _Builder:
    """Turns nodes into data, once, within limits."""

    def __init__(self, document: Document) -> None:
        self.document = document
        self.count = 0
        self.alias: Place | None = None

    def build(self, root: Node) -> None:
        try:
            self.document.data = self._value(root, (), ())
        except _TooMuchError as error:
            self.document.data = None
            self.document.faults.append(Fault(Place(1, 1), (), str(error)))

    def _value(self, node: Node | _Alias, path: Path_, above: tuple[int, ...]) -> Any:
        if isinstance(node, _Alias):
            around = self.alias
            self.alias = self._place(node)
            try:
                return self._value(node.node, path, above)
            finally:
                self.alias = around
        self.count += 1
        if self.count > _MOST_VALUES:
            raise _TooMuchError(_TOO_MANY)
        if id(node) in above or len(above) > _DEEPEST:
            raise _TooMuchError("this file is nested too deeply (or an alias contains itself)")
        place = self._place(node)
        self.document.values[path] = place
        kind = _KINDS.get(type(node))
        if kind is not None and str(node.tag) != _TAG + kind:
            self._tagged(node, path, place)
        if isinstance(node, MappingNode):
            return self._mapping(node, path, (*above, id(node)))
        if isinstance(node, SequenceNode):
            return [self._value(item, (*path, i), (*above, id(node))) for i, item in enumerate(node.value)]
        if not isinstance(node, ScalarNode):
            return None
        if self.alias is None:
            self.document.texts[path] = Written(node.start_mark.index, node.style, str(node.value))
        if node.value == "" and node.style is None:
            self.document.left_out.add(path)
        return self._scalar(node, path, place)

    def _place(self, node: Node | _Alias) -> Place:
        return self.alias or Place(node.start_mark.line + 1, node.start_mark.column + 1)

    def _fault(self, place: Place, path: Path_, message: str, value: Any = None) -> None:
        if self.alias is None:  # faults behind an alias are reported at its target
            self.document.faults.append(Fault(place, path, message, value))

    def _mapping(self, node: MappingNode, path: Path_, above: tuple[int, ...]) -> dict[str, Any]:
        result: dict[str, Any] = {}
        for key_node, value_node in node.value:
            at = self._place(key_node)
            key_node = key_node.node if isinstance(key_node, _Alias) else key_node
            if not isinstance(key_node, ScalarNode):
                self._fault(at, path, "a key must be one word, not a list or a mapping")
                continue
            if str(key_node.tag) == _TAG + "merge":
                self._fault(at, (*path, "<<"), "merge keys (<<) are not read; write the keys out")
                continue
            key = self._clean(str(key_node.value), path, at)
            here = (*path, key)
            if key in result:
                first = self.document.keys[here]
                self._fault(at, here, f"key {key!r} is duplicate; the first is on line {first.line}", key)
                continue
            self.document.keys[here] = at
            result[key] = self._value(value_node, here, above)
        return result

    def _scalar(self, node: ScalarNode, path: Path_, place: Place) -> Any:
        text, tag = self._clean(str(node.value), path, place), str(node.tag).removeprefix(_TAG)
        try:
            if tag == "null":
                return None
            if tag == "bool":
                return _truth(text)
            if tag == "int":
                return _whole_number(text)
            if tag == "float":
                return float(text.replace("_", ""))  # .inf and .nan remain text: no spec uses them
        except (ValueError, OverflowError):
            return text
        if tag not in ("str", "timestamp"):
            self._tagged(node, path, place)
        return text

    def _tagged(self, node: Node, path: Path_, place: Place) -> None:
        tag = str(node.tag)
        written = "!!" + tag.removeprefix(_TAG) if tag.startswith(_TAG) else tag
        self._fault(place, path, f"tags such as {written} are not read; write the value itself")

    def _clean(self, text: str, path: Path_, place: Place) -> str:
        """The text without characters that no text may contain; reports them."""
        match = _NO_TEXT.search(text)
        if match is None:
            return text
        self._fault(place, path, f"this text contains the invalid character {ord(match[0]):#06x}")
        return _NO_TEXT.sub("\N{REPLACEMENT CHARACTER}", text)


def _truth(text: str) -> bool | str:
    """True or False; another word tagged `!!bool` remains text, which no boolean field accepts."""
    return text.lower() == "true" if text.lower() in ("true", "false") else text


def _whole_number(text: str) -> int | str:
    digits = text.replace("_", "").lower()
    if len(digits) > 30:
        return text
    for prefix, base in (("0x", 16), ("0o", 8), ("0b", 2)):
        if digits.lstrip("+-").startswith(prefix):
            return int(digits.replace(prefix, "", 1), base)
    return int(digits)


class _TooMuchError(Exception):
    """Raised when a file would take unreasonable memory to read."""
