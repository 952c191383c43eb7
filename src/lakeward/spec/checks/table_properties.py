"""Which table properties a sink may give: those that would break the exactly-once writer or maintenance are refused."""

from __future__ import annotations

import re

_IN_THE_LAKE = "the table's files stand where its catalog says, and maintenance looks for them there"
_OURS = {
    "write.wap.enabled": "it stages every batch before it is published",
    "gc.enabled": "maintenance needs it",
    "write.data.path": _IN_THE_LAKE,
    "write.metadata.path": _IN_THE_LAKE,
    "write.object-storage.path": _IN_THE_LAKE,
    "write.folder-storage.path": _IN_THE_LAKE,
    "write.location-provider.impl": _IN_THE_LAKE,
}
_ONE_OF = {
    "format-version": (("2", "3"), "1 has no sequence numbers, by which a rolled-back table is recognised"),
    "write.metadata.delete-after-commit.enabled": (
        ("true",), "every batch leaves a metadata file, and no maintenance deletes them",
    ),
}  # fmt: skip
_NUMBERS = {
    "commit.retry.num-retries", "commit.retry.min-wait-ms", "commit.retry.max-wait-ms", "commit.retry.total-timeout-ms",
    "commit.status-check.num-retries", "commit.manifest.target-size-bytes", "commit.manifest.min-count-to-merge",
    "write.target-file-size-bytes", "write.delete.target-file-size-bytes", "write.metadata.previous-versions-max",
    "write.parquet.row-group-size-bytes", "write.parquet.page-size-bytes", "write.parquet.page-row-limit",
    "write.parquet.dict-size-bytes", "read.split.target-size", "history.expire.max-snapshot-age-ms",
    "history.expire.min-snapshots-to-keep",
}  # fmt: skip
_NUMBER = re.compile(r"[1-9][0-9]{0,17}")


def refusal(key: str, value: str) -> str | None:
    """Why a property may not be given, or not with this value; None when it may."""
    if not key.strip():
        return "a table property needs a name"
    if key in _OURS or key.startswith("lakeward."):
        why = _OURS.get(key, "it is Lakeward's record")
        return f"{key} is not yours to set: {why}"
    if key in _ONE_OF and value.lower() not in _ONE_OF[key][0]:
        valid, why = _ONE_OF[key]
        return f"{key} must be {' or '.join(valid)}: {why}"
    if key in _NUMBERS and not _NUMBER.fullmatch(value):
        return f"{key} must be a whole number above 0, in digits"
    return None
