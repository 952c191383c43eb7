"""Secrets of one home, in files that only their owner can read."""

from __future__ import annotations

import secrets
from pathlib import Path

from lakeward.platform.private import folder, write

__all__ = ["folder", "keep", "write"]


def keep(file: Path, make: str | None = None) -> str:
    """The secret in `file`; made once (`make`, or 32 random bytes) and the same ever after."""
    try:
        return file.read_text().strip()
    except FileNotFoundError:
        secret = make or secrets.token_urlsafe(32)
        write(file, secret + "\n")
        return secret
