"""A YAML file as plain data, with the place of every key and value.

Read by ruamel's safe composer and turned into data here: no tag makes an object, a key that is there twice is a
problem, and so is whatever is not plain JSON-like data. Dates stay text; the models know what they want.
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

from lakeward.spec.read.text_positions import letters

Path_ = tuple[str | int, ...]
_TAG = "tag:yaml.org,2002:"
_DIRECTIVE = re.compile(r"((?:[ \t]*(?:#.*)?\n)*)%YAML[ \t]+([0-9.]+)")
_NO_TEXT = re.compile("[\x00\ud800-\udfff]")  # neither a file name nor UTF-8 nor PostgreSQL can hold these
_KINDS: dict[type[Node], str] = {MappingNode: "map", SequenceNode: "seq"}
_MOST_VALUES = 20_000  # aliases can make a small file enormous; no spec comes near this
_DEEPEST = 40


@dataclass(frozen=True)
class Place:
    """A 1-based position in a file."""

    line: int
    column: int


@dataclass(frozen=True)
class Written:
    """A text as it stands in the file: offset of its start, its style in YAML, and what YAML reads of it."""

    start: int
    style: str | None
    value: str


@dataclass(frozen=True)
class Fault:
    """Something wrong with the file as YAML."""

    place: Place
    path: Path_
    message: str
    value: Any = None


@dataclass
class Document:
    """The data of one file and where it stands.

    Attributes:
        data: mappings, lists, text, numbers, booleans, None.
        values, keys: path -> place of the value, and of the key that leads to it. What an alias (`*a`) stands for
            is where the alias is.
        texts: path -> how the text there is written.
        faults: what is wrong as YAML; with a syntax error `data` is None.
    """

    text: str
    data: Any = None
    values: dict[Path_, Place] = field(default_factory=dict)
    keys: dict[Path_, Place] = field(default_factory=dict)
    texts: dict[Path_, Written] = field(default_factory=dict)
    left_out: set[Path_] = field(default_factory=set)
    faults: list[Fault] = field(default_factory=list)

    def has(self, path: Path_) -> bool:
        """Whether something stands at exactly this path."""
        return path in self.values

    def place(self, path: Path_, *, key: bool = False) -> Place:
        """Where `path` stands: its value (or its key), else the nearest thing above it that the file has.

        A value that was left out has its key's place: it is nowhere itself.
        """
        for length in range(len(path), -1, -1):
            part = path[:length]
            if (key or length < len(path) or part in self.left_out) and part in self.keys:
                return self.keys[part]
            if part in self.values:
                return self.values[part]
        return Place(1, 1)

    def inside(self, path: Path_, line: int | None, column: int | None) -> Place:
        """Where (line, column) of the text at `path` is in the file; the text's start where that cannot be told."""
        written = self.texts.get(path)
        if line is None or written is None:
            return self.place(path)
        before = written.value.split("\n")[: line - 1]
        letter = sum(len(each) + 1 for each in before) + (column or 1) - 1
        offsets = letters(self.text, written.start, written.style, written.value)
        if not offsets:
            return self.place(path)
        return place_of(self.text, offsets[min(letter, len(offsets) - 1)])


def place_of(text: str, offset: int) -> Place:
    """The place of the letter at `offset` of a file."""
    return Place(text.count("\n", 0, offset) + 1, offset - text.rfind("\n", 0, offset))


class _Composer(Composer):
    """Keeps where an alias stands; ruamel knows only where what it stands for does."""

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
    """Read one YAML file. Never raises for what stands in it: faults are listed in the document."""
    document = Document(text)
    older = _DIRECTIVE.match(text)
    if older is not None and older[2] != "1.2":
        message = f"YAML {older[2]} reads yes, no and 010 otherwise than these files mean; take the %YAML line out"
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
            raise _TooMuchError("this file is too large for a spec (or its aliases multiply)")
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
        if self.alias is None:  # what stands behind an alias is told where it is written
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
                self._fault(at, here, f"key {key!r} is there twice; the first stands on line {first.line}", key)
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
                return float(text.replace("_", ""))  # .inf and .nan stay text: no spec means them
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
        """The text without what no text may hold, which is told."""
        found = _NO_TEXT.search(text)
        if found is None:
            return text
        self._fault(
            place, path, f"this text holds the character {ord(found[0]):#06x}, which is half a character or none"
        )
        return _NO_TEXT.sub("\N{REPLACEMENT CHARACTER}", text)


def _truth(text: str) -> bool | str:
    """true or false; what `!!bool` says of another word stays text, and no switch takes that."""
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
