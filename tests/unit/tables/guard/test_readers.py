"""Streams that read a table keep what they have not read."""

from __future__ import annotations

from lakeward.connectors.iceberg.source.position import Offset
from lakeward.tables.guard.readers import Reading, documents, pins


def test_each_reader_keeps_the_snapshot_it_stands_on_and_what_came_after(facts, chain):
    table = facts(chain(5))
    [behind, fresh] = pins(table, [Reading("slow", "source", Offset(2, 1).text), Reading("new", "source", None)])
    assert behind.at == chain(5)[1].at
    assert "it has read up to snapshot 2" in behind.why
    assert fresh.at == chain(5)[0].at, "what was never read is needed whole"
    assert pins(table, [Reading("a", "source", Offset(None).text)])[0].at == chain(5)[0].at


def test_a_reader_whose_snapshot_is_gone_keeps_nothing_and_is_reported_as_lost(facts, chain):
    table, gone = facts(chain(5)), Reading("late", "source", Offset(99).text)
    assert pins(table, [gone]) == []
    [told] = documents(table, [gone])
    assert (told["stream"], told["lost"], told["snapshot_id"]) == ("late", True, None)


def test_a_table_without_snapshots_has_nothing_to_keep(facts):
    assert pins(facts(), [Reading("new", "source", None)]) == []


def test_a_position_of_another_kind_of_source_counts_as_none(facts, chain):
    [kept] = pins(facts(chain(3)), [Reading("was_kafka", "source", '{"flights":{"0":5}}')])
    assert kept.at == chain(3)[0].at


def test_a_reader_of_a_delta_table_keeps_what_was_there_at_the_version_it_is_in(facts, chain):
    def at(version):
        return f'{{"reservoirId":"u","reservoirVersion":{version},"index":-1,"isStartingVersion":false}}'

    def kept(text):
        return [each.at for each in pins(facts(chain(5)), [Reading("copy", "source", text, "delta")])]

    assert kept(at(3)) == [chain(5)[2].at]
    assert kept(at(6)) == [chain(5)[4].at], "all is read: what comes next goes on from the newest"
    assert kept(None) == [chain(5)[0].at]
    assert kept(at(0)) == [], "its commit is cleaned up: nothing can be kept for it"
