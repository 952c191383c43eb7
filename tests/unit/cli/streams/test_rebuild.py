"""`streams rebuild`: what would be done, and what is refused before anything starts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from lakeward.registry import generations, streams

_WORDS = ("streams", "rebuild", "flights")


def test_a_plan_names_the_offsets_the_tables_and_what_would_be_missing(site: Any, landed: Callable[..., Any]) -> None:
    assert site.lakeward(*_WORDS).code == 2, "it says why, in a sentence"
    answer = site.lakeward(*_WORDS, "--dry-run")
    assert answer.code == 4
    assert "table nyc.flights does not exist, and the stream's position was in it" in answer.err

    table = landed({0: 5, 1: 3}, rows=[(0, each) for each in range(5)] + [(1, each) for each in range(3)])
    found = site.lakeward(*_WORDS, "--dry-run", "-o", "json").json
    assert (found["operation"], found["result"], found["records"], found["lost"]) == ("rebuild", "skipped", 8, 0)
    assert (found["into"], found["before"]) == ("nyc.flights_rebuild_1", "nyc.flights_before_1")
    assert (found["position"], found["generation"]) == ("flights@rebuild-1", 1)

    with table.transaction() as change:
        change.set_properties({"lakeward.stream.others.position": table.properties["lakeward.stream.flights.position"]})
    answer = site.lakeward(*_WORDS, "--comment", "x")
    assert answer.code == 4
    assert "others also landed in nyc.flights" in answer.err
    with table.transaction() as change:
        change.remove_properties("lakeward.stream.others.position")

    with site.registry() as connection:
        streams.accept(connection, "tail", generation=1, driver="tail")
        generations.add(
            connection, stream="tail", generation=1, spec={"sources": {"f": {"iceberg": {"table": "nyc.flights"}}}},
            digest="d", sql=None, code={}, versions={}, author="test", checkpoint="tail",
        )  # fmt: skip
    answer = site.lakeward(*_WORDS, "--comment", "x")
    assert answer.code == 4
    assert "tail reads nyc.flights incrementally and would be blocked" in answer.err
