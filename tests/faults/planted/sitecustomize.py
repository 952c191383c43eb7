"""Takes a guard out of a driver, to see whether the campaign would notice. Python imports this before anything else.

`LAKEWARD_PLANT=replay`: a batch that a sink has already is landed once more. `LAKEWARD_PLANT=skip`: the first batch of
each start is taken for landed, and nothing compares where a batch begins with where the sink's position ends.
"""

from __future__ import annotations

import os
import sys
from typing import Any

_PLANT = os.environ.get("LAKEWARD_PLANT")


def _plant(kind: str) -> None:
    from lakeward.connectors.commit_protocol import follow as product
    from lakeward.connectors.commit_protocol import writer

    right, begun = product.follow, set[str]()

    def wrong(stream: str, table: str, position: Any, batch: Any) -> Any:
        found = right(stream, table, position, batch)
        if position is None:
            return found
        if kind == "replay":
            return product.Land(position.seq + 1) if isinstance(found, product.AlreadyLanded) else found
        if stream not in begun:
            begun.add(stream)
            return product.AlreadyLanded(position)
        return product.Land(position.seq + 1) if isinstance(found, product.BlockReason) else found

    writer.follow = wrong


if _PLANT and "lakeward.driver" in sys.orig_argv:
    _plant(_PLANT)
