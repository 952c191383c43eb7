"""Port claims: ports that another stack of this user has chosen, and binds later, when its servers start."""

from __future__ import annotations

import fcntl
import json
import time
from collections.abc import Callable, Collection
from contextlib import suppress
from pathlib import Path
from typing import Any

from lakeward.jars import places
from lakeward.platform.errors import LakewardError
from lakeward.stack import private

LAST_S = 600.0
"""A stack that has not taken its ports by then does not start any more."""

Ports = dict[str, int]


def claim(home: Path, choose: Callable[[Collection[int]], Ports]) -> Ports:
    """Choose ports for the stack of `home`, one stack at a time, and keep other stacks from choosing the same.

    A cache folder that cannot be written keeps nobody from starting: then nothing is claimed.

    Args:
        choose: gives part -> port, none of those it is told. One that gives none ends the claims of `home`.
    """
    try:
        folder = private.folder(places.cache() / "stacks")
        lock = (folder / "ports.lock").open("w")
    except (OSError, LakewardError):
        return choose(())
    with lock:
        with suppress(OSError):  # a file system without locks
            fcntl.flock(lock, fcntl.LOCK_EX)
        file, own = folder / "ports.json", str(home.resolve())
        others = {port: each for port, each in _known(file).items() if each["home"] != own}
        chosen = choose([int(port) for port in others])
        ours = {str(port): {"home": own, "at": time.time()} for port in chosen.values()}
        with suppress(OSError):
            private.write(file, json.dumps(others | ours))
    return chosen


def _known(file: Path) -> dict[str, Any]:
    """The claims that last; none where the file is damaged. One of the future is a clock that was set back."""
    try:
        known = json.loads(file.read_text())
        return {
            port: {"home": str(each["home"]), "at": each["at"]}
            for port, each in known.items()
            if int(port) and 0 <= time.time() - each["at"] < LAST_S
        }
    except (OSError, ValueError, TypeError, LookupError, AttributeError):
        return {}
