"""Secrets of one home, in files with mode 0600."""

from __future__ import annotations

import secrets
from pathlib import Path

from lakeward.platform.private import folder, write

__all__ = ["folder", "keep", "write"]


def keep(file: Path, make: str | None = None) -> str:
    """The secret in `file`; created at the first call (`make`, or 32 random bytes)."""
    try:
        return file.read_text().strip()
    except FileNotFoundError:
        secret = make or secrets.token_urlsafe(32)
        write(file, secret + "\n")
        return secret
