"""Conflicts of a checkpoint with another stream or with the folder of a table. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from lakeward.connectors.commit_protocol.position import Position
from lakeward.engine.checkpoint.layout import Checkpoint
from lakeward.engine.checkpoint.preflight import Finding, Verdict


def sharing(stream: str, folder: str, others: Mapping[str, str]) -> Verdict | None:
    """Find streams with the same checkpoint: each would take the other's batches for its own.

    Args:
        folder: this stream's checkpoint.
        others: declared stream -> its checkpoint.
    """
    same = sorted(name for name, place in others.items() if name != stream and _plain(place) == _plain(folder))
    if not same:
        return None
    return Verdict(
        Finding.SHARED,
        f"Streams {stream} and {', '.join(same)} have the same checkpoint",
        f"{folder} is recorded for both: each would plan its batches from the other's offsets",
        f"lakeward streams recover {stream}   gives it a checkpoint of its own, from its table's position",
    )


def nested(stream: str, folder: str, table: str, location: str) -> Verdict | None:
    """Find a checkpoint inside a table's folder, where orphan removal would delete it, or a table inside a checkpoint's
    folder, which people delete."""
    here, there = f"{_plain(folder)}/", f"{_plain(location)}/"
    if there.startswith(here):
        return Verdict(
            Finding.NESTED,
            f"Table {table} is inside the checkpoint of stream {stream}",
            f"{location} is at or below {folder}: removing the checkpoint would remove the table",
            f"let checkpoints: of the deployment point elsewhere, then: lakeward streams recover {stream}",
        )
    if not here.startswith(there):
        return None
    return Verdict(
        Finding.NESTED,
        f"The checkpoint of stream {stream} is inside table {table}",
        f"{folder} is below {location}: orphan file removal of the table would remove the checkpoint",
        f"let checkpoints: of the deployment point elsewhere, then: lakeward streams recover {stream}",
    )


def renamed(
    stream: str,
    checkpoint: Checkpoint,
    table: str,
    landed: Mapping[str, Position],
    declared: Mapping[str, str],
    topic_ids: Mapping[str, str],
    otherwise: Callable[[str], str],
) -> Verdict | None:
    """Find a stream that was given a new id: it would land again what the table has under the previous id.

    Args:
        checkpoint: only a new checkpoint begins from the start.
        landed: the positions of other streams in the table.
        declared: the declared streams; a declared one that reads the same topics is a stream of its own.
        topic_ids: topic -> id, of this stream's sources.
        otherwise: stream id -> what to do if both are required, as the text after `or if both are meant`.
    """
    if not checkpoint.empty:
        return None
    for name, position in sorted(landed.items()):
        same = sorted(topic for topic, known in position.topic_ids.items() if topic_ids.get(topic) == known)
        if name in declared or not same:
            continue
        return Verdict(
            Finding.RENAMED,
            f"Table {table} holds {', '.join(same)} already, landed by stream {name}",
            f"{name} is not declared any more, and {stream} would land the same records again from the start "
            f"({position.totals.landed:,} rows up to seq {position.seq})",
            f"give it the id {name} again (id: {name} in its file), then: lakeward deploy --retire {stream}; "
            f"or if both are meant{otherwise(name)}",
        )
    return None


def _plain(place: str) -> str:
    """A comparable location: `file:/p`, `file:///p` and `/p` are one folder, `s3a://` and `s3://` one bucket."""
    return re.sub(r"^(?:file:(?://)?(?=/)|s3[an]?(?=://))", "", place).rstrip("/")
