"""Masking: removes what looks like a secret from texts that people read and share.

Secrets are kept out of logs at their origin; masking is the last line of defence, for texts of third-party libraries.
"""

from __future__ import annotations

import re

MASK = "***"

_NAMED = re.compile(
    r"(?P<name>(?:password|passwd|pwd|secret(?:[._-]?key)?|credential|api[._-]?key|access[._-]?key(?:[._-]?id)?"
    r"|private[._-]?key|account[._-]?key|sas[._-]?token|(?:auth|access|session|bearer|delegation)?[._-]?token)"
    r"[\"']?\s*[=:]\s*)(?P<quote>[\"']?)(?P<value>[^\\\s\"',;&)}]+)",
    re.IGNORECASE,
)
_ADDRESS = re.compile(r"(?P<head>://[^/\s:@]*:)[^/\s@]+(?=@)")
_BEARER = re.compile(r"\b(?P<kind>Bearer|Basic)\s+[A-Za-z0-9._~+/=-]{8,}")
_AWS = re.compile(r"\b(?:AKIA|ASIA)[0-9A-Z]{16}\b")
_PEM = re.compile(r"-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|\Z)", re.DOTALL)


def mask(text: str) -> str:
    """The text without what looks like a secret; everything else stays as it is."""
    text = _PEM.sub(MASK, text)
    text = _ADDRESS.sub(rf"\g<head>{MASK}", text)
    text = _BEARER.sub(rf"\g<kind> {MASK}", text)
    text = _AWS.sub(MASK, text)
    return _NAMED.sub(rf"\g<name>\g<quote>{MASK}", text)
