"""Rebuild of a checkpoint at a position, for sources that have no option to start there.

Kafka's source has such an option. A file source continues where its log ends, so the log has to exist, together with
finished batches that end there. On a local disk the folder is written under another name and then renamed, so that
there is a complete checkpoint or none.

Two finished batches are written, both with the same end. At a start Spark plans its newest finished batch again, from
the end of the one before; with a single batch that would be every file that ever landed.
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
from lakeward.spec.model.file_paths import local

_log = structlog.get_logger(__name__)


def rebuild(folder: str, order: Sequence[StreamSource], begin: Mapping[str, str], files: FileAccess) -> bool:
    """Write the checkpoint if one of its sources needs it; returns whether it was written.

    Args:
        folder: the checkpoint, without batches.
        order: the sources in the query's order.
        begin: source name -> position to continue from.
        files: writes the files.

    Raises:
        Blocked: a source lacks what it needs for this.
    """
    if not any(source.logged and source.name in begin for source in order):
        return False
    if on_s3(folder):
        # S3 has no rename. `metadata` is written last: a checkpoint without it is refused, and recovered again.
        ends = _write(folder, order, begin, files)
    else:
        checkpoint = Path(local(folder))
        made = checkpoint.with_name(f".{checkpoint.name}.made")
        shutil.rmtree(made, ignore_errors=True)
        ends = _write(str(made), order, begin, files)
        shutil.rmtree(checkpoint, ignore_errors=True)
        made.rename(checkpoint)
    _log.info("checkpoint rebuilt", checkpoint=folder, ends=ends)
    return True


def _write(folder: str, order: Sequence[StreamSource], begin: Mapping[str, str], files: FileAccess) -> list[str]:
    """Write the files; returns the end offsets of the sources in Spark's form."""
    ends = [
        source.restored(begin[source.name], f"{folder}/sources/{index}") if source.name in begin else NO_DATA
        for index, source in enumerate(order)
    ]
    head = {"batchWatermarkMs": 0, "batchTimestampMs": int(time.time() * 1000), "conf": {}}
    for batch in ("0", "1"):
        files.write(f"{folder}/offsets/{batch}", "\n".join(["v1", json.dumps(head), *ends]).encode())
        files.write(f"{folder}/commits/{batch}", b'v1\n{"nextBatchWatermarkMs":0}')
    files.write(f"{folder}/metadata", json.dumps({"id": str(uuid4())}).encode())
    return ends
