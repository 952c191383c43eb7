"""Java regular expressions, checked without Java."""

from __future__ import annotations

import re
import warnings

_WRONG_IN_JAVA_TOO = ("missing )", "unbalanced parenthesis", "unterminated character set", "nothing to repeat",
                      "bad character range", "bad escape (end of pattern)")  # fmt: skip


def no_pattern(text: str) -> str | None:
    """Why the text is not a Java regular expression; None if it is one, or if only Java can decide."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # a later Python may read [a-z&&[^b]] differently, as Java does
            re.compile(text)
    except re.error as error:
        if error.msg.startswith(_WRONG_IN_JAVA_TOO):  # the rest may only be unknown to Python
            return f"this is not a regular expression: {error}"
    return None


_ONE_SIDED = re.compile(
    r"""(?P<escaped>\\.)|(?P<python>\(\?P[<=>]|\(\?\()|(?P<java>\[\^?(?:\\.|[^\]\\\[&]|&(?!&))*(?:\[|&&))|\[\^?(?:\\.|[^\]\\])*\]"""
)


def not_shared(text: str) -> str | None:
    """Why Java and Python may not read a pattern alike; None if they do.

    Spark matches topics by Java's reader, and Lakeward, which asks the broker without Java, by Python's.
    """
    way_out = "write it with what both read alike: letters, classes like [a-z0-9], . * + ? {2,3} | and ( )"
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            re.compile(text)
    except re.error as error:
        return f"Java may read this pattern, but Lakeward matches topics without Java too, where {error}: {way_out}"
    for found in _ONE_SIDED.finditer(text):
        if found["python"]:
            return f"Java, by which Spark reads this pattern, does not know {found['python']}: {way_out}"
        if found["java"]:
            return f"only Java knows a class of characters within another one ({found['java']}): {way_out}"
    return None
