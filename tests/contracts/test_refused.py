"""What this version refuses is named in no page that people learn from, as if it worked; what they type parses."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator
from contextlib import redirect_stderr, redirect_stdout
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML, YAMLError

from lakeward.cli import context as of_the_command
from lakeward.cli.app import command_tree
from lakeward.cli.context import take_common_options
from lakeward.platform.runtime import Project
from lakeward.spec.checks import not_supported
from lakeward.spec.docs.schema import FILES
from lakeward.spec.model.settings import Settings
from lakeward.spec.model.stream import StreamSpec
from lakeward.spec.model.unsupported import UNSUPPORTED
from lakeward.spec.read.loader import load_project

ROOT = Path(__file__).parents[2]
PAGES = [
    ROOT / "README.md",
    *(file for file in sorted((ROOT / "docs").rglob("*.md")) if "adr" not in file.relative_to(ROOT / "docs").parts),
]
MINIMAL: dict[str, Any] = {
    "id": "s", "owner": "o", "sources": {"source": {"kafka": {"topics": ["t"]}, "decode": {"json": "n INT"}}},
    "transform": {"sql": "SELECT * FROM source"}, "trigger": {"every": "10s"},
    "sink": {"iceberg": {"table": "n.t"}},
}  # fmt: skip


def _stream(source: dict[str, Any] | None = None, **more: Any) -> list[tuple[Any, str]]:
    document = {**MINIMAL, **({"sources": {"source": source}} if source else {}), **more}
    return list(not_supported.of_stream(StreamSpec.model_validate(document)))


def _settings(**document: Any) -> list[tuple[Any, str]]:
    return list(not_supported.of_settings(Settings.model_validate(document)))


KAFKA = {"topics": ["t"]}
REFUSED = {
    ("IcebergSource", "branch"): lambda: _stream(
        {"iceberg": {"table": "n.a", "branch": "dev", "max_files_per_trigger": 1}}
    ),
    ("Decode", "avro"): lambda: _stream({"kafka": KAFKA, "decode": {"avro": {"schema_file": "a.avsc"}}}),
    ("Sink", "memory"): lambda: _stream(sink={"memory": {}}),
    ("FilesSink", "format"): lambda: _stream(sink={"files": {"path": "/x", "format": "orc"}}),
    ("IcebergSink", "commit"): lambda: _stream(sink={"iceberg": {"table": "n.t", "commit": "native"}}),
    ("Settings", "connections"): lambda: _settings(connections={"c": {"kafka": {"bootstrap": "h:1"}}}),
    ("Settings", "reconcile"): lambda: _settings(reconcile={"every": "5s"}),
    ("Catalog", "properties"): lambda: _settings(catalog={"properties": {"uri": "http://x"}}),
    ("LakeCatalog", "type"): lambda: _settings(catalogs={"lake": {"type": "jdbc"}}),
}


@pytest.mark.parametrize("place", sorted(UNSUPPORTED))
def test_what_the_reference_leaves_out_is_refused(place: tuple[str, str]) -> None:
    found = REFUSED[place]()
    assert [path[-1] for path, _ in found] == [place[1]], "it works now: take it out of UNSUPPORTED"


def test_every_refused_key_is_left_out_of_the_reference() -> None:
    text = (ROOT / "src/lakeward/spec/checks/not_supported.py").read_text()
    in_code = len(re.findall(r"^ +yield (?!from)", text, flags=re.MULTILINE))
    # `files.path` elsewhere, `available_now` for kinesis, and the name of a catalog: the keys themselves work.
    by_value_of_others = 3
    assert in_code - by_value_of_others == len(UNSUPPORTED) == len(REFUSED)


@pytest.mark.parametrize("place", sorted(UNSUPPORTED))
def test_no_editor_offers_what_is_refused(place: tuple[str, str]) -> None:
    """The schemas beside the reference, which editors complete from, and every choice of one key among several."""
    (kind, key), refused = place, UNSUPPORTED[place]
    seen = False
    for name, (model, _) in FILES.items():
        made = json.loads((ROOT / f"docs/reference/{name}.schema.json").read_text())
        definition = {model.__name__: made, **made.get("$defs", {})}.get(kind, {})
        offered = definition.get("properties", {})
        seen = seen or bool(offered)
        if "*" in refused:
            assert key not in offered
            assert {"required": [key]} not in definition.get("oneOf", [])
        elif key in offered:
            assert not refused & set(offered[key]["enum"])
    assert seen


def test_a_schema_has_no_definition_that_nothing_names() -> None:
    for name in FILES:
        text = (ROOT / f"docs/reference/{name}.schema.json").read_text()
        for kind in json.loads(text).get("$defs", {}):
            assert f'"#/$defs/{kind}"' in text


STREAM = "owner: o\nsource: {{{source}}}\nsink: {{{sink}}}\ntrigger: {{every: 10s}}\n"
TOPIC, TABLE = 'kafka: {topics: [t], max_offsets_per_trigger: 5}, decode: {json: "n INT"}', "iceberg: {table: n.t}"
SLIPS = {
    ("IcebergSource", "branch"): {"source": "iceberg: {table: n.a, branc: dev, max_files_per_trigger: 1}"},
    ("Decode", "avro"): {"source": "kafka: {topics: [t], max_offsets_per_trigger: 5}, decode: {avr: {}}"},
    ("Sink", "memory"): {"sink": "memor: {}"},
    ("FilesSink", "format"): {"sink": "files: {path: /x, format: orcs}"},
    ("IcebergSink", "commit"): {"sink": "iceberg: {table: n.t, comit: exact}"},
    ("Settings", "connections"): "conections: {}",
    ("Settings", "reconcile"): "reconcil: {}",
    ("Catalog", "properties"): "catalog: {propertys: {}}",
    ("LakeCatalog", "type"): "catalogs: {lake: {type: jdb}}",
    ("Driver", "backend"): "drivers: {d: {backend: yar}}",
}
"""A slip of the pen near each of them: the problem names the valid keys and values, and the nearest."""


@pytest.mark.parametrize("place", sorted(UNSUPPORTED))
def test_no_problem_suggests_what_is_refused(place: tuple[str, str], tmp_path: Path) -> None:
    slip, refused = SLIPS[place], UNSUPPORTED[place]
    (tmp_path / "conf" / "streams").mkdir(parents=True)
    if isinstance(slip, str):
        (tmp_path / "conf" / "lakeward.yaml").write_text(slip)
    else:
        text = STREAM.format(**{"source": TOPIC, "sink": TABLE, **slip})
        (tmp_path / "conf" / "streams" / "a.yaml").write_text(text)
    problems = load_project(Project(tmp_path)).problems
    assert problems
    words = {place[1]} if "*" in refused else refused
    for problem in problems:
        text = problem.text().partition(": ")[2] if "*" in refused else problem.text()
        assert not words & set(re.findall(r"\w+", text)), text
        assert not words & {*problem.valid, problem.nearest}


def test_a_value_of_a_refused_key_is_not_suggested(tmp_path: Path) -> None:
    (tmp_path / "conf" / "streams").mkdir(parents=True)
    text = STREAM.format(source=TOPIC, sink="iceberg: {table: n.t, commit: nativ}")
    (tmp_path / "conf" / "streams" / "a.yaml").write_text(text)
    [problem] = load_project(Project(tmp_path)).problems
    assert problem.text().endswith("'nativ' is not known here")


@pytest.mark.parametrize("slip", ["{}", "{iceberg: {table: n.t}, memory: {}}"])
def test_a_choice_does_not_name_what_is_refused(slip: str, tmp_path: Path) -> None:
    (tmp_path / "conf" / "streams").mkdir(parents=True)
    text = STREAM.format(source=TOPIC, sink=slip[1:-1])
    (tmp_path / "conf" / "streams" / "a.yaml").write_text(text)
    [message] = [each.message for each in load_project(Project(tmp_path)).problems if "exactly one of" in each.message]
    assert "memory" not in message.partition("exactly one of")[2]


def _yaml_blocks() -> Iterator[tuple[str, Any]]:
    for page in PAGES:
        text = page.read_text()
        for match in re.finditer(r"^```ya?ml\n(.*?)^```", text, flags=re.MULTILINE | re.DOTALL):
            where = f"{page.relative_to(ROOT)}:{text.count(chr(10), 0, match.start()) + 1}"
            try:
                yield where, YAML(typ="safe", pure=True).load(match[1])
            except YAMLError:
                continue  # a fragment with dots


def _named(node: Any, above: str = "") -> Iterator[tuple[str, str, str]]:
    """(key above, key, value) of every entry."""
    if isinstance(node, dict):
        for key, value in node.items():
            yield above, str(key), value if isinstance(value, str) else ""
            yield from _named(value, str(key))
    elif isinstance(node, list):
        for item in node:
            yield from _named(item, above)


def test_no_example_has_a_key_or_a_value_that_is_refused() -> None:
    above = {
        ("IcebergSource", "branch"): {"iceberg"}, ("Decode", "avro"): {"decode"}, ("Sink", "memory"): {"sink"},
        ("FilesSink", "format"): {"files"}, ("IcebergSink", "commit"): {"iceberg"},
        ("Settings", "connections"): {""}, ("Settings", "reconcile"): {""}, ("Catalog", "properties"): {"catalog"},
    }  # fmt: skip
    wrong = []
    for where, block in _yaml_blocks():
        for over, key, value in _named(block):
            for (kind, refused_key), refused in UNSUPPORTED.items():
                if key != refused_key or over not in above.get((kind, key), {over}):
                    continue
                as_source = kind == "FilesSink" and "sink" not in str(block)
                if not as_source and ("*" in refused or value in refused):
                    wrong.append(f"{where}: {over}: {key}: {value}")
    assert wrong == []


def test_the_pages_that_list_keys_do_not_list_refused_ones() -> None:
    page = (ROOT / "docs/reference/specs.md").read_text()
    rows = re.findall(r"^\| `(\w+)` \|", page, flags=re.MULTILINE)
    assert {"connections", "reconcile", "avro", "branch", "commit"} & set(rows) == set()
    assert not re.search(r"`(native|memory)`: |\[Memory sink\]", page)


PLACEHOLDER = re.compile(r"\.\.|\.\.\.|…|<[^>]+>|\[[^\]]*\]|\|")


def _command_lines() -> Iterator[tuple[str, str, bool]]:
    """Every `lakeward ...` of a page: a line of a block, or a text in backticks; and whether it is the latter."""
    for page in PAGES:
        inside = False
        for number, line in enumerate(page.read_text().splitlines(), start=1):
            if line.lstrip().startswith("```"):
                inside = not inside and line.strip() in ("```", "```bash", "```sh", "```console", "```shell", "```text")
                continue
            if inside:
                found = re.findall(r"^\s*(?:\$ )?(?:uv run )?lakeward (.+)$", line)
            else:
                found = re.findall(r"`(?:uv run )?lakeward ([^`]+)`", line)
            yield from ((f"{page.relative_to(ROOT)}:{number}", each, not inside) for each in found)


def _words(text: str) -> list[str] | None:
    """The words of a line up to its comment, None if it shows a form and not a command."""
    text = re.split(r"\s+#\s|\s{3,}", text)[0].rstrip("\\ ")
    if PLACEHOLDER.search(text):
        return None
    try:
        words = shlex.split(text)
    except ValueError:
        return None  # a statement that goes on in the next line
    for stop in ("|", "&&", ";", ">", "||"):
        words = words[: words.index(stop)] if stop in words else words
    return words


def _parses(words: list[str]) -> str:
    """Why the command line refuses the words; empty if it takes them. Nothing is run."""
    command: Any = command_tree()
    above, name = None, "lakeward"
    try:
        with redirect_stdout(StringIO()), redirect_stderr(StringIO()):
            words = take_common_options(words)
            while True:
                context = command.make_context(name, list(words), parent=above)
                if not hasattr(command, "resolve_command"):
                    return ""
                name, command, words = command.resolve_command(context, [*context._protected_args, *context.args])
                above = context
    except Exception as error:  # of typer's own copy of click, which has no public name
        if hasattr(error, "format_message"):
            return str(error.format_message())
        if type(error).__name__ == "Exit":  # --help, --version
            return ""
        raise


@pytest.fixture(autouse=True)
def unchanged(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(of_the_command, "_state", of_the_command._state)


def test_every_command_line_of_the_pages_parses() -> None:
    wrong, parsed = [], 0
    for where, text, prose in _command_lines():
        words = _words(text)
        if words is None:
            continue
        parsed += 1
        why = _parses(words)
        if why and not (prose and why.startswith("Missing ")):  # a command's name in a sentence
            wrong.append(f"{where}: lakeward {text}: {why}")
    assert wrong == []
    assert parsed > 60, "the pages hold more: is the search right?"


def test_a_wrong_command_line_is_found() -> None:
    assert _parses(["tables", "health", "--colour"])
    assert _parses(["tables", "restore", "nyc.flights"])
    assert not _parses(["tables", "health", "nyc.flights"])
