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
