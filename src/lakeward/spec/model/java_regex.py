"""Regular expressions as Java reads them, looked at without Java."""

from __future__ import annotations

import re
import warnings

_WRONG_IN_JAVA_TOO = ("missing )", "unbalanced parenthesis", "unterminated character set", "nothing to repeat",
                      "bad character range")  # fmt: skip


def no_pattern(text: str) -> str | None:
    """Why the text is no regular expression in Java either; None where it is one, or only Java can tell."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # Python may read [a-z&&[^b]] otherwise some day; Java does already
            re.compile(text)
    except re.error as error:
        if error.msg.startswith(_WRONG_IN_JAVA_TOO):  # the rest may only be unknown to Python
            return f"this is no regular expression: {error}"
    return None
