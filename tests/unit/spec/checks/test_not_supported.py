"""What a later version does is refused in plain words, all of it in one place."""

from __future__ import annotations

import pytest

HEAD = "owner: x\nsource: {kafka: {topics: [t], max_offsets_per_trigger: 5}}\n"
SINK = "sink: {iceberg: {table: n.t}}\n"
GRAMMAR = [
    (
        "owner: x\nsource: {kinesis: {stream: s, region: eu-west-1, max_records_per_trigger: 5}}\n"
        "trigger: {available_now: true, schedule: '0 * * * *'}\n" + SINK,
        "available_now for kinesis",
    ),
    (HEAD + SINK + "decode: {avro: {registry: r, subject: s}}\n", "Avro records"),
    (HEAD + "sink: {files: {path: /p, format: orc, partition_by: [a]}}\n", "files of orc"),
    (HEAD + "sink: {memory: {}}\n", "lakeward streams preview shows rows"),
    (HEAD + "sink: {iceberg: {table: n.t, commit: native}}\n", "lands a batch twice once the table's"),
    ("owner: x\nsource: {iceberg: {table: n.up, branch: verified, max_files_per_trigger: 5}}\n" + SINK,
     "rows that verified does not have would land too"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "words"), GRAMMAR, ids=[words for _, words in GRAMMAR])
def test_it_is_read_and_refused(stream, text, words):
    messages = [problem.message for problem in stream(text).problems]
    assert any(message.startswith("not yet: ") and words in message for message in messages), messages


def test_settings_too(project):
    loaded = project({"conf/lakeward.yaml": "catalogs: {lake: {type: jdbc}}"})
    assert [problem.message for problem in loaded.problems] == [
        "not yet: type jdbc: nothing was ever run there; rest, hive and glue are done",
    ]


def test_a_pointer_table_of_a_delta_table_is_refused(project):
    head = "table: n.t\nowner: x\npointer_table: true\n"
    suite = f"{head}expectations: [{{type: expect_column_to_exist, kwargs: {{column: a}}}}]\n"
    told = {}
    for sink in ("delta", "iceberg"):
        stream = HEAD + f"sink: {{{sink}: {{table: n.t}}}}\n"
        found = project({"conf/streams/a.yaml": stream, "expectations/n.t.yaml": suite})
        told[sink] = [(each.path, each.message) for each in found.problems if each.file.startswith("expectations")]
    assert told == {
        "delta": [
            (
                "pointer_table",
                "it is a Delta table: what is proven of it is a version, which is recorded, and readers name that",
            )
        ],
        "iceberg": [],
    }


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("connections: {k: {kafka: {bootstrap: 'b:1'}}}", "connections in this file"),
        ("catalog: {properties: {type: rest}}", "properties of the embedded catalog"),
        ("reconcile: {every: 30s}", "other intervals of reconcile"),
    ],
)
def test_settings_that_would_do_nothing_are_refused(project, text, words):
    messages = [problem.message for problem in project({"conf/lakeward.yaml": text}).problems]
    assert len(messages) == 1, messages
    assert messages[0].startswith("not yet: ")
    assert words in messages[0]
