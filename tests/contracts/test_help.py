"""What `--help` says holds: one sentence says what a command is, its examples parse, and it offers nothing refused."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Collection, Iterator
from functools import cache
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

import pytest
from typed import commands, parsed
from typer import testing
from typer._click.exceptions import BadParameter, UsageError

from lakeward.cli.app import app, command_tree
from lakeward.cli.examples import EXAMPLES
from lakeward.connectors.decode.ahead import AHEAD
from lakeward.connectors.decode.json import TOO_LARGE
from lakeward.connectors.kafka.archive import FORMATS
from lakeward.quality.runs.request import Scope
from lakeward.spec.model.unsupported import CATALOGS, UNSUPPORTED
from lakeward.stack import groups
from lakeward.supervision.decide.health import State
from lakeward.tables.run import selected_actions

PLACE = re.compile(r"[A-Z]+$")
"""A word of a metavar for any value: TIME, FILE."""


def _walk(command: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    yield path, command
    for name, below in getattr(command, "commands", {}).items():
        yield from _walk(below, (*path, name))


COMMANDS = dict(_walk(command_tree()))
LEAVES = {" ".join(path): command for path, command in COMMANDS.items() if not hasattr(command, "commands")}


@cache
def _shown(path: tuple[str, ...]) -> str:
    """What `--help` prints, on one line."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(testing, "_get_command", lambda _: command_tree())  # it would be built for each call
        answer = testing.CliRunner().invoke(
            app, [*path, "--help"], env={"COLUMNS": "400", "TERMINAL_WIDTH": "400", "NO_COLOR": "1"}
        )
    assert answer.exit_code == 0, answer.output
    return " ".join(answer.output.split())


@pytest.mark.parametrize("path", sorted(COMMANDS))
def test_its_first_sentence_says_what_it_is(path: tuple[str, ...]) -> None:
    text = COMMANDS[path].help or ""
    first = re.split(r"(?<=[.])\s", text)[0]
    assert first.endswith(".") and first[0].isupper(), text
    assert len(first) <= 220, "the list of commands shows it"
    assert not re.search(r"^\s*(Raises|Args|Returns):", text, flags=re.MULTILINE), "that is for readers of the code"
    assert not re.search(r"(?<!\n)\n(?!\n)", text), "typer would keep the lines of the docstring"


def test_every_command_has_an_example() -> None:
    assert EXAMPLES.keys() == LEAVES.keys()


@pytest.mark.parametrize("name", sorted(LEAVES))
def test_its_examples_parse_and_are_shown(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for file in ("policies.json", "suite.json"):
        (tmp_path / file).write_text("{}")
    shown = _shown(tuple(name.split()))
    for example in EXAMPLES[name]:
        assert example.startswith(f"lakeward {name}")
        parsed(example)
        assert f"Example: {example}" in shown


def test_a_wrong_example_is_found() -> None:
    with pytest.raises(UsageError):
        parsed("lakeward streams reset flights")
    with pytest.raises(UsageError):
        parsed("lakeward streams status flights --wait")


@pytest.mark.parametrize("path", sorted(COMMANDS))
def test_the_commands_that_a_help_names_exist(path: tuple[str, ...]) -> None:
    command = COMMANDS[path]
    texts = [command.help or "", *(getattr(each, "help", None) or "" for each in command.params)]
    for text in texts:
        for named in commands(text):
            parsed(named)
        for named in re.findall(r"`([a-z]+ [a-z-]+)`", text):
            known = [*COMMANDS] if named.split()[0] in {name for name, *_ in filter(None, COMMANDS)} else []
            assert not known or tuple(named.split()) in known, f"{named}, in: {text}"


def _words(metavar: str) -> list[str]:
    return [word for word in metavar.split("|") if not PLACE.match(word)] if "|" in metavar else []


def _options() -> Iterator[tuple[str, Any]]:
    for name, command in LEAVES.items():
        for option in command.params:
            yield name, option


def _listed(after: str) -> Callable[[str], list[str]]:
    """The words of a list in a help text: `... after: a, b or c.`"""

    def words(text: str) -> list[str]:
        found = re.search(rf"{after}([a-z_, ]+)", text)
        assert found, text
        listed = re.split(r", or |, | or |,", found[1].strip(" ,"))
        return [word for word in listed if word and " " not in word]  # "or a rule's name" is a place

    return words


LISTS: dict[tuple[str, str], tuple[Callable[[str], list[str]], Collection[str]]] = {
    ("stack up", "--only"): (lambda text: re.findall(r"[a-z]+(?=,|\s\()", text.partition(":")[2]), groups.GROUPS),
    ("tables maintain", "--actions"): (_listed("by commas: "), (*selected_actions(None), "orphans")),
    ("quality replay", "--reason"): (_listed("for this reason: "), {"decode", TOO_LARGE, AHEAD}),
    ("streams list", "--state"): (_listed("this state: "), [state.value for state in State]),
}
"""Options whose help lists their values -> the list, and what the command takes."""


@pytest.mark.parametrize("place", sorted(LISTS))
def test_a_list_of_values_in_a_help_is_what_the_command_takes(place: tuple[str, str]) -> None:
    name, option = place
    [found] = [each for each in LEAVES[name].params if option in each.opts]
    words, taken = LISTS[place]
    assert set(words(found.help)) == set(taken)


def _offered(option: Any) -> list[str]:
    """The values that a help names as choices: of `a|b|TIME` in a metavar, or of the type."""
    kind = getattr(getattr(option, "type_descriptor", None), "annotation", None)
    literals = [part for part in (kind, *get_args(kind)) if get_origin(part) is Literal]
    return _words(option.metavar or "") or [value for literal in literals for value in get_args(literal)]


def test_each_value_that_a_help_offers_is_taken() -> None:
    """Parsed by the real command line, with the other options of the command's first example."""
    tried = 0
    for name, option in _options():
        for value in _offered(option):
            tried += 1
            words = shlex.split(EXAMPLES[name][0])
            at = words.index(option.opts[0]) if option.opts[0] in words else len(words)
            words[at : at + 2] = [option.opts[0], value]
            parsed(shlex.join(words))
    assert tried >= 15


@pytest.mark.parametrize(
    "words",
    [
        "streams backfill flights --from latest",
        "streams backfill flights --from earliest --to earliest",
        "streams backfill flights --from-files x --from latest",
        "quality run nyc.flights --scope all",
        "streams backfill flights --from-files x --format csw",
    ],
)
def test_what_is_always_refused_is_refused_at_once(words: str) -> None:
    with pytest.raises(BadParameter):
        parsed(f"lakeward {words}")


def test_the_choices_are_those_of_the_code() -> None:
    by_name = {(name, option.opts[0]): option for name, option in _options()}
    formats = _offered(by_name["streams backfill", "--format"])
    assert set(formats) == {*FORMATS, "csv"}, "csv: of a source that declares it"
    assert set(_offered(by_name["quality run", "--scope"])) == set(get_args(Scope))


@pytest.mark.parametrize("path", sorted(COMMANDS))
def test_no_help_names_what_the_specs_refuse(path: tuple[str, ...]) -> None:
    """By the list that filters the reference and the schemas: a refused value, or a refused key as one writes it."""
    shown = _shown(path)
    words = {*CATALOGS, "native"}
    keys = {key for (_, key), values in UNSUPPORTED.items() if "*" in values}
    assert not words & set(re.findall(r"\w+", shown))
    assert not [key for key in keys if re.search(rf"\b{key}:\s*[\[{{\w]", shown)]
