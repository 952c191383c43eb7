"""A checkpoint made anew at a position, where a source cannot be told by options where to go on.

Kafka's source is: it takes offsets. A file source goes on where its log says, and the log has to be there, together
with finished batches that end at it. On this machine the folder is made beside and then renamed: there is a whole
checkpoint or none.

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

from lakeward.connectors.aws.store import on_s3
from lakeward.connectors.commit_protocol.position import NO_DATA
from lakeward.connectors.file_access import FileAccess
from lakeward.connectors.source import StreamSource

_log = structlog.get_logger(__name__)


def rebuild(folder: str, order: Sequence[StreamSource], begin: Mapping[str, str], files: FileAccess) -> bool:
    """Make the checkpoint if one of its sources needs that.

    Args:
        folder: the checkpoint; nothing of a batch is in it.
        order: the sources in the query's order.
        begin: source name -> position to go on from.
        files: writes it.

    Raises:
        Blocked: what a source needs for it is not there.
    """
    if not any(inlet.logged and inlet.name in begin for inlet in order):
        return False
    if on_s3(folder):
        # No rename there. `metadata` comes last: without it a checkpoint is refused, and recovered anew.
        ends = _write(folder, order, begin, files)
    else:
        checkpoint = Path(folder.removeprefix("file://"))
        made = checkpoint.with_name(f".{checkpoint.name}.made")
        shutil.rmtree(made, ignore_errors=True)
        ends = _write(str(made), order, begin, files)
        shutil.rmtree(checkpoint, ignore_errors=True)
        made.rename(checkpoint)
    _log.info("checkpoint made anew", checkpoint=folder, ends=ends)
    return True


def _write(folder: str, order: Sequence[StreamSource], begin: Mapping[str, str], files: FileAccess) -> list[str]:
    """Spark's offsets of the sources."""
    ends = [
        inlet.restored(begin[inlet.name], f"{folder}/sources/{index}") if inlet.name in begin else NO_DATA
        for index, inlet in enumerate(order)
    ]
    head = {"batchWatermarkMs": 0, "batchTimestampMs": int(time.time() * 1000), "conf": {}}
    for batch in ("0", "1"):
        files.write(f"{folder}/offsets/{batch}", "\n".join(["v1", json.dumps(head), *ends]).encode())
        files.write(f"{folder}/commits/{batch}", b'v1\n{"nextBatchWatermarkMs":0}')
    files.write(f"{folder}/metadata", json.dumps({"id": str(uuid4())}).encode())
    return ends
