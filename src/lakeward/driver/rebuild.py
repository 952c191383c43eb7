"""A checkpoint made anew at a position, where a source cannot be told by options where to go on.

Kafka's source is: it takes offsets. A file source goes on where its log says, and the log has to be there, together
with finished batches that end at it. The folder is made beside and then renamed: there is a whole checkpoint or none.

Two of them, with nothing in between: at a start Spark plans its newest finished batch once more, from where the one
before ended. After a single one that would be everything that ever landed, listed file by file.
"""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from uuid import uuid4

import structlog

from lakeward.connectors.exact.position import NO_DATA
from lakeward.connectors.source import Inlet
from lakeward.errors import Blocked

_log = structlog.get_logger(__name__)


def rebuild(folder: str, order: Sequence[Inlet], begin: Mapping[str, str]) -> bool:
    """Make the checkpoint if one of its sources needs that.

    Args:
        folder: the checkpoint; nothing of a batch is in it.
        order: the sources in the query's order.
        begin: source name -> position to go on from.

    Raises:
        Blocked: what a source needs for it is not there.
    """
    if not any(inlet.logged and inlet.name in begin for inlet in order):
        return False
    if "://" in folder.removeprefix("file://"):
        raise Blocked(
            "A checkpoint on an object store cannot be made anew for files",
            why=f"{folder}: which files have landed is kept beside a table on this machine only",
            next="put the checkpoint back from a copy, or land into a new table under a new id",
            reason="log-missing",
        )
    checkpoint = Path(folder.removeprefix("file://"))
    made = checkpoint.with_name(f".{checkpoint.name}.made")
    shutil.rmtree(made, ignore_errors=True)
    for name in ("offsets", "commits", "sources"):
        (made / name).mkdir(parents=True)
    ends = [
        inlet.restored(begin[inlet.name], str(made / "sources" / str(index))) if inlet.name in begin else NO_DATA
        for index, inlet in enumerate(order)
    ]
    head = {"batchWatermarkMs": 0, "batchTimestampMs": int(time.time() * 1000), "conf": {}}
    (made / "metadata").write_text(json.dumps({"id": str(uuid4())}))
    for batch in ("0", "1"):
        (made / "offsets" / batch).write_text("\n".join(["v1", json.dumps(head), *ends]))
        (made / "commits" / batch).write_text('v1\n{"nextBatchWatermarkMs":0}')
    shutil.rmtree(checkpoint, ignore_errors=True)
    made.rename(checkpoint)
    _log.info("checkpoint made anew", checkpoint=folder, ends=ends)
    return True
