"""Names of tables as a message prints them and a person types them: the command reads the name that is stored."""

from __future__ import annotations

import shlex
from typing import Any

import pytest

from lakeward.cli.app import command_tree
from lakeward.platform.text import word


def read(typed: str) -> Any:
    """The tables that a command line names, by the real parser."""
    words, group = shlex.split(typed), command_tree()
    context = group.context_class(group, info_name="lakeward")
    while hasattr(group, "get_command"):
        group = group.get_command(context, words.pop(0))
    return group.make_context(group.name, words, parent=context).params["table"]


@pytest.mark.parametrize("name", ["nyc.flights", "-eu.orders", "--to.orders", "-x.-y.`v1.2`", "- a.b'c", "-o.json"])
@pytest.mark.parametrize("command", ["tables why {}", "tables restore {} --to 7", "quality run {} --scope table"])
def test_a_name_that_is_printed_is_read_as_it_is_stored(name: str, command: str) -> None:
    assert read(command.format(word(name))) == name


def test_a_name_may_have_needless_backticks_and_what_is_no_name_is_left_to_the_command() -> None:
    assert read("tables why '`nyc`.`flights`'") == "nyc.flights"
    assert read("tables why nyc..flights") == "nyc..flights"
    assert read("quality status nyc.flights") == "nyc.flights"
