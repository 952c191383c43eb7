"""YAML as plain data, with the place of every key and value."""

from __future__ import annotations

import pytest

from lakeward.spec.document import Place, read_document


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
    path = next(path for path in document.styles)
    assert document.inside(path, 2, 6) == Place(line, column)


def test_places_inside_text_on_one_line():
    assert read_document("q: 'a b'").inside(("q",), 1, 3) == Place(1, 7)
    assert read_document("q: a b").inside(("q",), 1, 3) == Place(1, 6)
    assert read_document("q: a b").inside(("q",), None, None) == Place(1, 4)
    assert read_document("q: 'a\n  b'").inside(("q",), 2, 1) == Place(1, 4)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("a: 1\na: 2", "key 'a' is there twice; the first stands on line 1"),
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
        ("# c\n\n%YAML 1.1\n---\na: yes", "take the %YAML line out"),
        ('a: "\\ud800"', "the character 0xd800"),
        ('"a\\0": 1', "the character 0x0000"),
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
