"""What a stream whose rows leave as they come must be: each refusal names the reason and what to do instead."""

from __future__ import annotations

import pytest

SOURCE = "source: {kafka: {topics: [t]}}\n"
DECODE = 'decode: {json: "id INT, at TIMESTAMP, list ARRAY<INT>"}\nquarantine: {table: n.q}\n'
SINK = "sink: {kafka: {topic: u}}\n"
TRIGGER = "trigger: {real_time: 5m}\n"
CAP = "max_offsets_per_trigger: 5"
WHOLE = "owner: x\n" + SOURCE + DECODE + SINK + TRIGGER


def sql(text: str) -> str:
    return f'transform: {{sql: "{text}"}}\n'


@pytest.mark.parametrize("trigger", ["{real_time: 5s}", "{real_time: 5m}", "{continuous: 1s}", "{continuous: 1m}"])
@pytest.mark.parametrize("more", [sql("SELECT id, explode(list) AS x, _ingested_at FROM source WHERE id > 1"),
                                  "rules: {r: id > 1}\n", "lineage: rows\n"])  # fmt: skip
def test_stateless_sql_from_a_topic_to_a_topic_or_the_console(stream, trigger, more):
    text = WHOLE.replace("{real_time: 5m}", trigger) + more
    assert list(stream(text).problems) == []
    assert list(stream(text.replace(SINK, "sink: {console: {}}\n")).problems) == []


@pytest.mark.parametrize(
    ("old", "new", "path", "words"),
    [
        ("topics: [t]", "topics: [t], " + CAP, "source.kafka.max_offsets_per_trigger", "no batches to limit"),
        (SOURCE, "source: {rate: {}}\n", "source.rate", "real_time reads Kafka only"),
        (SINK, "sink: {iceberg: {table: n.t}}\n", "sink.iceberg", "let a second stream land the topic"),
        (SINK, "sink: {python: 'm:f'}\n", "sink.python", "kafka or console only"),
        (DECODE, DECODE + "watermark: {column: at, delay: 1h}\n", "watermark", "keeps no state"),
        (DECODE, DECODE + "deduplicate: {keys: [id], within_watermark: false}\n", "deduplicate", "keeps no state"),
        (DECODE, DECODE + sql("SELECT count(*) AS n FROM source"), "transform.sql", "use every: 100ms"),
        (DECODE, DECODE + sql("SELECT DISTINCT id FROM source"), "transform.sql", "DISTINCT"),
        (DECODE, DECODE + sql("SELECT id FROM source UNION ALL SELECT id FROM source"), "transform.sql", "2 times"),
        (DECODE, DECODE + sql("SELECT id, now() AS m FROM source"), "transform.sql", "take the column _ingested_at"),
        (DECODE, DECODE + sql("SELECT id, current_timestamp() AS m FROM source"), "transform.sql", "minutes ago"),
        ("{real_time: 5m}", "{real_time: 4s}", "trigger", "between 5s and 5m"),
        ("{real_time: 5m}", "{real_time: 1h}", "trigger", "between 5s and 5m"),
        ("{real_time: 5m}", "{continuous: 100ms}", "trigger", "between 1s and 1m"),
    ],
)  # fmt: skip
def test_anything_else_is_refused_with_the_reason(stream, old, new, path, words):
    found = [(each.path, each.message) for each in stream(WHOLE.replace(old, new, 1)).problems]
    assert not any("this is missing" in message for _, message in found)
    assert any(at == path and words in message for at, message in found), found


def test_python_references_and_several_sources_too(stream):
    python = stream(WHOLE + 'transform: {python: "m:f"}\n', **{"python/m.py": "def f(source): return source\n"})
    assert any("takes SQL only" in each.message for each in python.problems)
    reference = 'reference: {r: {csv: r.csv, columns: "id INT"}}\n' + sql("SELECT s.id FROM source s JOIN r USING (id)")
    joined = stream(WHOLE + reference, **{"r.csv": "id\n1\n"})
    assert any("would read a reference only once" in each.message for each in joined.problems)
    two = "sources: {a: {kafka: {topics: [a]}}, b: {kafka: {topics: [b]}}}\n"
    two += sql("SELECT * FROM a UNION ALL SELECT * FROM b")
    found = stream("owner: x\n" + two + SINK + TRIGGER).problems
    assert any(each.path == "sources" and "a stream of its own" in each.message for each in found)


def test_other_streams_still_need_a_cap_and_quarantine_a_place(stream):
    [missing] = stream(WHOLE.replace(TRIGGER, "trigger: {every: 1s}\n")).problems
    assert (missing.path, missing.message[:15]) == ("source.kafka.max_offsets_per_trigger", "this is missing")
    [nowhere] = stream(WHOLE.replace("quarantine: {table: n.q}\n", "")).problems
    assert nowhere.path == "quarantine"


def test_a_driver_of_its_own(project):
    other = WHOLE.replace(TRIGGER, "trigger: {every: 1s}\n").replace("topics: [t]", "topics: [o], " + CAP)
    files = {"conf/streams/a.yaml": WHOLE + "resources: {driver: d}\n",
             "conf/streams/b.yaml": other.replace("topic: u", "topic: v") + "resources: {driver: d}\n"}  # fmt: skip
    [problem] = project(files).problems
    assert (problem.file, problem.path) == ("conf/streams/a.yaml", "resources.driver")
    assert "holds a core of its driver for each partition" in problem.message
    assert "d has b too" in problem.message
