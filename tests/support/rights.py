"""Whether this user reads and writes whatever the permissions say, as root does: then no test can show a refusal."""

from __future__ import annotations

import tempfile
from pathlib import Path


def _reads_all() -> bool:
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o000)
        try:
            return list(Path(name).iterdir()) == []
        except PermissionError:
            return False
        finally:
            Path(name).chmod(0o700)


READS_ALL = _reads_all()
