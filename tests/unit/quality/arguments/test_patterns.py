"""Patterns are judged by Java's own compiler, all of a project by one process."""

from __future__ import annotations

import pytest

from lakeward.quality.arguments import patterns


def test_java_refuses_what_python_reads_and_the_other_way_round() -> None:
    sound = ["a\\\\", "\\Qabc\\"]
    sound += [r"\p{Alpha}+", "[a-z&&[^b]]", r"(?<a>x)\k<a>", "a++", "é+", r"\Z", "", "(?i)x", "a\nb"]
    wrong = {
        r"^(?P<five>\d{5})$": "Unknown inline modifier at character 4; Java writes a group with a name as (?<name>...)",
        "^{[a-z]+}$": r"Illegal repetition at character 3; a brace that is meant as text is written \{",
        "(": "Unclosed group",
        "[": "Unclosed character class",
        "a**": "Dangling meta character '*'",
        r"(?(1)a|b)": "Unknown",
        r"\p": r"Unknown character property name {\x00}",
        "a{2}\\": r"Java: it ends in a backslash that escapes nothing; one that is meant as text is written \\",
        "\\\\\\": "it ends in a backslash",
        "x\ud800": r"Java: it has half of a surrogate pair (\ud800 to \udfff), which is no character",
    }
    found = patterns.refused_by_java([*sound, *wrong])
    assert sorted(found) == sorted(wrong)
    assert all(words in found[each] for each, words in wrong.items()), found


@pytest.mark.usefixtures("untried")
def test_without_java_what_no_engine_reads_is_still_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(patterns.java, "locate", lambda environ: None)
    assert sorted(patterns.refused_by_java(["(", r"\p{Alpha}", "a\\", "a\\\\"])) == ["(", "a\\"]


@pytest.mark.parametrize("pattern", [r"(.*a){20}b", r"(.+)+\1x", r"(a*)*\1b", ".*.*=.*"])
def test_a_pattern_that_takes_java_too_many_steps_is_reported(pattern: str) -> None:
    patterns.probe([pattern])
    assert "more than two million steps" in patterns.slow(pattern)


@pytest.mark.parametrize("pattern", ["^(a+)+$", r"^(\w+\s?)*$", r"^([\w.-]+)@([\w-]+\.)+[a-z]{2,}$", "(", ""])
def test_a_pattern_that_java_matches_in_few_steps_is_not(pattern: str) -> None:
    patterns.probe([pattern])
    assert patterns.slow(pattern) == ""


@pytest.fixture
def untried(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(patterns, "_by_java", {})


@pytest.mark.usefixtures("untried")
@pytest.mark.parametrize("pattern", ["(a+)+$", r"^(\d+)*x", r"([a-z]+)*$", "(?:.*)+b", "(x+x+)+y", r"(\w+){2,}"])
def test_a_repeated_repetition_is_reported(pattern: str) -> None:
    assert "twice as long with each character" in patterns.slow(pattern)


@pytest.mark.usefixtures("untried")
@pytest.mark.parametrize("pattern", [r"(\d+,)*\d+", "^a+b+$", "(abc)+", "(?:a++)+", r"(\(a+\))+", "[+*]+", "(a|b)+"])
def test_a_plain_repetition_is_not(pattern: str) -> None:
    assert patterns.slow(pattern) == ""


@pytest.mark.parametrize(
    ("pattern", "words"),
    [
        (
            "^[[:alpha:]]+$",
            r"[:alpha:] is a class of POSIX, which Java reads as the characters : a l p h: write \p{Alpha}",
        ),
        ("[:space:]", r"write \p{Space}"),
        ("[[:^digit:]x]", r"write \P{Digit}"),
        (r"\\[[:word:]]", r"write \w"),
        (r"\[:alpha:\]", ""),
        (r"\Q[:alpha:]\E", ""),
        ("[[:foo:]]", ""),
    ],
)
def test_a_class_of_posix_is_refused_with_javas_own(pattern: str, words: str) -> None:
    found = [each.text() for each in patterns.posix_faults({"regex_list": ["a", pattern]})]
    assert [each.startswith("regex_list.1: ") and words in each for each in found] == [True] * bool(words), found
