"""Regular expressions of suites, judged by Java's own compiler, because Spark matches with it."""

from __future__ import annotations

import base64
import os
import re
import subprocess
from collections.abc import Collection, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from lakeward.jars import java, own
from lakeward.quality.arguments.faults import Fault
from lakeward.spec.model.java_regex import no_pattern

if TYPE_CHECKING:
    from pyspark.sql.connect.session import SparkSession

_TIMEOUT_S = 60
_known: dict[str, str | None] = {}
"""What the Connect server said of a pattern; None for a sound one."""
_by_java: dict[str, tuple[str | None, bool]] = {}
"""What Java said of a pattern: why it does not compile, and whether a short text takes it two million steps."""
_MOST = 5_000
_REFUSED = "this is not a regular expression of Java"
_TRAILING = re.compile(r"(?<!\\)(?:\\\\)*\\\Z")
"""A backslash at the end that no other one escapes."""
_HINTS = (
    ("(?P", "Java writes a group with a name as (?<name>...)"),
    ("{", r"a brace that is meant as text is written \{"),
)


def patterns_of(kwargs: Mapping[str, Any]) -> dict[tuple[str | int, ...], str]:
    """The regular expressions among the arguments of an expectation, by their path."""
    found: dict[tuple[str | int, ...], str] = {}
    if isinstance(one := kwargs.get("regex"), str):
        found["regex",] = one
    listed = kwargs.get("regex_list")
    for index, each in enumerate(listed if isinstance(listed, list) else ()):
        if isinstance(each, str):
            found["regex_list", index] = each
    return found


def refused_by_java(patterns: Collection[str]) -> dict[str, str]:
    """Pattern -> why Java does not compile it; asks one Java process, about all of them.

    Without Java on this machine only what no engine can read is refused.
    """
    unique = sorted(set(patterns))
    probe(unique)
    found = {each: _half(each) or (_by_java[each][0] if each in _by_java else no_pattern(each)) for each in unique}
    return {each: why for each, why in found.items() if why}


def probe(patterns: Collection[str]) -> None:
    """Have one Java process compile and try all patterns that are new, for `slow`; without Java nothing is done."""
    unknown = sorted({each for each in patterns if each not in _by_java and not _half(each)})
    binary = java.locate(os.environ) if unknown else None
    if binary is None:
        return
    lines = "".join(f"{base64.b64encode(each.encode()).decode()}\n" for each in unknown)
    command = [str(binary), "-XX:TieredStopAtLevel=1", "-Xshare:auto", "-cp", str(own.PATTERNS_JAR), own.PATTERNS_CLASS]
    try:
        done = subprocess.run(command, input=lines, capture_output=True, text=True, timeout=_TIMEOUT_S, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return
    answers = done.stdout.splitlines()
    if done.returncode != 0 or len(answers) != len(unknown):
        return
    if len(_by_java) > _MOST:
        _by_java.clear()
    for pattern, answer in zip(unknown, answers, strict=True):
        place, _, reason = answer.partition(" ")
        refused = _words(pattern, base64.b64decode(reason).decode(), int(place)) if reason else None
        _by_java[pattern] = refused, answer == "slow"


def refused_by_spark(session: SparkSession, patterns: Collection[str]) -> dict[str, str]:
    """Pattern -> why Spark cannot compile it. The server is asked once about each pattern, without reading rows."""
    unknown = sorted({each for each in patterns if each not in _known and not _half(each)})
    if unknown:
        if len(_known) > _MOST:
            _known.clear()
        _ask(session, unknown)
    return {each: why for each in patterns if (why := _half(each) or _known.get(each))}


def _half(pattern: str) -> str:
    """Why a pattern cannot even be sent to Java; empty if it can."""
    found = any("\ud800" <= letter <= "\udfff" for letter in pattern)
    return f"{_REFUSED}: it has half of a surrogate pair (\\ud800 to \\udfff), which is no character" if found else ""


def _ask(session: SparkSession, patterns: list[str]) -> None:
    from pyspark.errors import PySparkException
    from pyspark.sql.connect import functions as fn

    try:
        session.range(1).select(*(fn.lit("").rlike(each) for each in patterns)).collect()
        _known.update(dict.fromkeys(patterns))
    except PySparkException as error:
        if not _SYNTAX.search(str(error)):
            raise  # nothing about a pattern: no server, or no time
        if len(patterns) > 1:
            middle = len(patterns) // 2
            _ask(session, patterns[:middle])
            _ask(session, patterns[middle:])
            return
        reason, place = refused_by_java(patterns).get(patterns[0]), -1
        _known[patterns[0]] = reason or _words(patterns[0], "Java does not compile it", place)


_SYNTAX = re.compile(r"PatternSyntaxException|INVALID_PARAMETER_VALUE\.PATTERN|rlike", re.IGNORECASE)


def faults(kwargs: Mapping[str, Any], refused: Mapping[str, str]) -> list[Fault]:
    """The patterns of an expectation that are refused."""
    return [Fault(path, refused[each], each) for path, each in patterns_of(kwargs).items() if each in refused]


_NAMES = "Alnum Alpha ASCII Blank Cntrl Digit Graph Lower Print Punct Space Upper XDigit"
_POSIX = {name.lower(): rf"\p{{{name}}}" for name in _NAMES.split()} | {"word": r"\w"}
_POSIX_CLASS = re.compile(r"\\Q.*?(?:\\E|$)|\\.|\[:(\^?)([a-z]+):\]", re.DOTALL)


def posix_faults(kwargs: Mapping[str, Any]) -> Iterator[Fault]:
    """Classes of POSIX such as `[:alpha:]`, which Java and Python take for a set of their letters and the colon."""
    for path, pattern in patterns_of(kwargs).items():
        found = next((each for each in _POSIX_CLASS.finditer(pattern) if each[2] in _POSIX), None)
        if found is None:
            continue
        java = _POSIX[found[2]]
        meant = java.replace(r"\p", r"\P").replace(r"\w", r"\W") if found[1] else java
        letters = " ".join(dict.fromkeys(found[0][1:-1]))
        message = f"{found[0]} is a class of POSIX, which Java reads as the characters {letters}: write {meant}"
        yield Fault(path, message, pattern)


def _words(pattern: str, reason: str, place: int) -> str:
    """One clause: Java's reason, the place from 1, and how Java writes what was probably meant."""
    if reason.startswith("Unexpected internal error") and _TRAILING.search(pattern):  # Java 21 says it in words
        return rf"{_REFUSED}: it ends in a backslash that escapes nothing; one that is meant as text is written \\"
    reason = "".join(each if each.isprintable() else ascii(each)[1:-1] for each in reason)
    where = f" at character {place + 1}" if place >= 0 else ""
    near = pattern[max(place - 3, 0) : place + 2] if place >= 0 else pattern
    hint = next((f"; {words}" for sign, words in _HINTS if sign in near), "")
    return f"{_REFUSED}: {reason}{where}{hint}"


_ATOM = r"(?:\\.|\[(?:\\.|[^\]\\])+\]|[^()\[\]\\|+*?{}])"
_STEPS = (
    "a text of 400 characters takes Java more than two million steps, and a longer one may take it for ever: "
    "repeat once, not a repetition, or make it possessive: (?:a++)+"
)
_NESTED = re.compile(rf"\((?:\?:|\?<\w+>)?(?:{_ATOM}[+*]\??)+\)(?:[+*]|\{{[0-9]+,\}})")


def slow(pattern: str) -> str:
    """Why matching may take a time without end, as a clause; empty if nothing shows it.

    Java has tried the pattern (`probe`); without Java its text is looked at.
    """
    if pattern in _by_java:
        return _STEPS if _by_java[pattern][1] else ""
    found = _NESTED.search(pattern)
    if found is None:
        return ""
    return (
        f"{found[0]} repeats a repetition: a text that does not match takes Java twice as long with each character; "
        "repeat once, or make it possessive: (?:a++)+"
    )
