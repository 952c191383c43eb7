"""YAML as plain data, with the place of every key and value."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakeward.spec.read.document import Place, read_document
from lakeward.spec.read.text_positions import letters


def test_places_of_keys_and_values():
    document = read_document("a: 1\nb:\n  c: [x, yy]\n  d: 'z'\n")
    assert document.data == {"a": 1, "b": {"c": ["x", "yy"], "d": "z"}}
    assert document.place(("a",)) == Place(1, 4)
    assert document.place(("a",), key=True) == Place(1, 1)
    assert document.place(("b", "c", 1)) == Place(3, 10)
    assert document.place(("b", "nope")) == Place(2, 1), "what is missing is told at the key above it"
    assert document.place(("nope",)) == Place(1, 1)


def test_scalars_are_yaml_1_2():
    text = (
        "a: yes\nb: true\nc: 010\nd: 0o17\ne: 0x1F\nf: 1_000\ng: 1.5e3\nh: .inf\ni: 2026-12-31\nj: ~\nk: '5'\nl: 1:30"
    )
    assert read_document(text).data == {
        "a": "yes", "b": True, "c": 10, "d": 15, "e": 31, "f": 1000, "g": 1500.0, "h": ".inf", "i": "2026-12-31",
        "j": None, "k": "5", "l": "1:30",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("text", "line", "column"),
    [
        ("q: |\n  SELECT 1\n  FROM x\n", 3, 8),
        ("deep:\n  q: |\n      SELECT 1\n      FROM x\n", 4, 12),
    ],
)
def test_places_inside_a_block_of_text(text, line, column):
    document = read_document(text)
    path = next(path for path in document.texts)
    assert document.inside(path, 2, 6) == Place(line, column)


def test_places_inside_text_on_one_line():
    assert read_document("q: 'a b'").inside(("q",), 1, 3) == Place(1, 7)
    assert read_document("q: a b").inside(("q",), 1, 3) == Place(1, 6)
    assert read_document("q: a b").inside(("q",), None, None) == Place(1, 4)
    assert read_document("q: 'a b'").inside(("q",), 2, 1) == Place(1, 7), "there is no such line: its end"


# Each text holds one @; the second of the pair says what YAML makes of what stands before it.
WRITTEN = [
    ("q: >\n  a\n  b @\n", "a b "),
    ("q: >\n  a\n\n  b @\n", "a\nb "),
    ("q: >\n  a\n    b\n  @\n", "a\n  b\n"),
    ("q: >-\n\n  a\n  @ b", "\na "),
    ("q: |\n\n  a\n   @\n", "\na\n "),
    ("q: |+\n  a\n   \n  @\n\n", "a\n \n"),
    ("q: |2\n    a\n  @\n", "  a\n"),
    ("q: | # why\n  a\n  @", "a\n"),
    ("q: &x |\n  a\n  @", "a\n"),
    ("q: a\n  b\n  @", "a b "),
    ("q: a\n\n  @ b", "a\n"),
    ("q: !!str a @", "a "),
    ("q: 'a\n  b\n\n  @'", "a b\n"),
    ("q: 'a ''b'' @'", "a 'b' "),
    ('q: "a \\"b\\" \\u00e4 \\t\\x41@"', 'a "b" \u00e4 \tA'),
    ('q: "a \\\n   b\\\n\n  c @"', "a b\nc "),
    ('q: "a\n  b @"', "a b "),
    ("[{q: 'a\n  @'}]", "a "),
]


@pytest.mark.parametrize(("text", "before"), WRITTEN)
def test_a_place_inside_a_text_is_where_its_letter_is_written(text, before):
    document = read_document(text)
    ((path, written),) = [each for each in document.texts.items() if "@" in each[1].value]
    assert written.value.partition("@")[0] == before
    line, column = before.count("\n") + 1, len(before) - before.rfind("\n")
    at = text.index("@")
    assert document.inside(path, line, column) == Place(text.count("\n", 0, at) + 1, at - text.rfind("\n", 0, at))


@given(
    lines=st.lists(st.text("ab'\"\\ :#", max_size=6), min_size=1, max_size=5),
    style=st.sampled_from(["|", ">", "|+", ">-", "'", '"', ""]),
)
def test_every_letter_of_any_text_is_where_it_is_written(lines, style):
    body = "\n".join(f"  {line}" for line in lines)
    head = f"{style}\n" if style[:1] in ("|", ">") else style
    text = f"q: {head}{body}{'' if head[-1:] == chr(10) else style}\n"
    document = read_document(text)
    written = document.texts.get(("q",))
    if written is None or document.faults or not written.value.strip():
        return
    found = letters(text, written.start, written.style, written.value)
    assert found is not None
    for letter, offset in zip(written.value, found, strict=True):
        assert letter.isspace() or text[offset] in (letter, "\\")


def test_what_is_behind_an_alias_is_where_the_alias_is():
    document = read_document("a: &x {b: [1, c d]}\ne: *x\nf: [0, *x]\n")
    assert document.data["e"] == document.data["a"] == document.data["f"][1]
    assert document.place(("a", "b", 1)) == Place(1, 15)
    assert document.place(("e",)) == document.place(("e", "b", 1)) == Place(2, 4)
    assert document.place(("e", "b"), key=True) == document.inside(("e", "b", 1), 1, 3) == Place(2, 4)
    assert document.place(("f", 1, "b")) == Place(3, 8)


def test_a_fault_behind_an_alias_is_reported_once():
    (fault,) = read_document("a: &x {b: 1, b: 2}\nc: *x\n").faults
    assert fault.place == Place(1, 14)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("a: 1\na: 2", "key 'a' is duplicate; the first is on line 1"),
        ("a: !!python/name:os.system ''", "tags such as"),
        ("? [1]\n: 2", "a key must be one word"),
        ("a: 1\n---\nb: 2", "another document"),
        ("&a [*a]", "an alias contains itself"),
        ("a: \x01", "special characters"),
        ("a: !foo 1", "tags such as !foo are"),
        ("a: !!foo 1", "tags such as !!foo are"),
        ("a: !foo {b: 1}", "tags such as !foo are"),
        ("a: !!set {b: }", "tags such as !!set are"),
        ("a: !foo [1]", "tags such as !foo are"),
        ("a: &a {b: 1}\nc:\n  <<: *a", "merge keys (<<) are not read"),
        ("# c\n\n%YAML 1.1\n---\na: yes", "remove the %YAML line"),
        ('a: "\\ud800"', "the invalid character 0xd800"),
        ('"a\\0": 1', "the invalid character 0x0000"),
    ],
)
def test_faults(text, words):
    assert any(words in fault.message for fault in read_document(text).faults)


def test_yaml_1_2_may_say_so():
    assert read_document("%YAML 1.2\n---\na: yes\n").data == {"a": "yes"}


def test_only_true_and_false_are_switches():
    assert read_document("a: !!bool yes\nb: !!bool TRUE\nc: False").data == {"a": "yes", "b": True, "c": False}


def test_what_was_left_out_has_the_place_of_its_key():
    document = read_document("a:\nb:\n  c:\nd: ~\n")
    assert document.place(("a",)) == Place(1, 1)
    assert document.place(("b", "c")) == Place(3, 3)
    assert document.place(("d",)) == Place(4, 4)


def test_nothing_is_an_empty_mapping():
    assert read_document("").data == {}
    assert read_document("# a comment\n").data == {}
