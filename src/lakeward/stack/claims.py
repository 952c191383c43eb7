"""Port claims: ports that another stack of this user has chosen and will bind when its servers start."""

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
"""A claim expires after this time: a stack that has not bound its ports by then failed to start."""

Ports = dict[str, int]


def claim(home: Path, choose: Callable[[Collection[int]], Ports]) -> Ports:
    """Choose ports for the stack of `home` under a lock, and reserve them against other stacks.

    If the cache folder cannot be written, the ports are chosen without a claim.

    Args:
        choose: returns part -> port, without the ports of its argument. An empty result ends the claims of `home`.
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
        others = {port: claim for port, claim in _known(file).items() if claim["home"] != own}
        chosen = choose([int(port) for port in others])
        own_claims = {str(port): {"home": own, "at": time.time()} for port in chosen.values()}
        with suppress(OSError):
            private.write(file, json.dumps(others | own_claims))
    return chosen


def _known(file: Path) -> dict[str, Any]:
    """The valid claims; none if the file is damaged. A claim of the future (a clock was set back) is invalid."""
    try:
        known = json.loads(file.read_text())
        return {
            port: {"home": str(claim["home"]), "at": claim["at"]}
            for port, claim in known.items()
            if int(port) and 0 <= time.time() - claim["at"] < LAST_S
        }
    except (OSError, ValueError, TypeError, LookupError, AttributeError):
        return {}
