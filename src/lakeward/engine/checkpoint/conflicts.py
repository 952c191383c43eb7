"""Is another stream, or the table itself, in the way of a checkpoint? Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from lakeward.connectors.commit_protocol.position import Position
from lakeward.engine.checkpoint.layout import Checkpoint
from lakeward.engine.checkpoint.preflight import Finding, Verdict


def sharing(stream: str, folder: str, others: Mapping[str, str]) -> Verdict | None:
    """Two streams on one folder: each would take the other's batches for its own.

    Args:
        folder: this stream's checkpoint.
        others: declared stream -> its checkpoint.
    """
    same = sorted(name for name, place in others.items() if name != stream and _plain(place) == _plain(folder))
    if not same:
        return None
    return Verdict(
        Finding.SHARED,
        f"Streams {stream} and {', '.join(same)} have one checkpoint",
        f"{folder} is recorded for both: each would plan its batches from the other's offsets",
        f"lakeward streams recover {stream}   gives it a checkpoint of its own, from its table's position",
    )


def nested(stream: str, folder: str, table: str, location: str) -> Verdict | None:
    """A checkpoint in a table's folder is orphan files to whoever cleans the table; a table in a checkpoint's folder
    goes with the checkpoint, which people remove."""
    here, there = f"{_plain(folder)}/", f"{_plain(location)}/"
    if there.startswith(here):
        return Verdict(
            Finding.NESTED,
            f"Table {table} stands inside the checkpoint of stream {stream}",
            f"{location} is at or below {folder}: whoever removes the checkpoint removes the table",
            f"let checkpoints: of the deployment point elsewhere, then: lakeward streams recover {stream}",
        )
    if not here.startswith(there):
        return None
    return Verdict(
        Finding.NESTED,
        f"The checkpoint of stream {stream} stands inside table {table}",
        f"{folder} is below {location}: whoever removes the table's orphan files removes the checkpoint",
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
    """A stream under a new id would land again what the table has under the old one.

    Args:
        checkpoint: only one that is new begins from the start.
        landed: the other streams' positions in the table.
        declared: the streams that are declared; one of these that reads the same topics is another stream.
        topic_ids: topic -> id, of this stream's sources.
        otherwise: a stream's id -> what to do if both are meant, as words that follow `or, if both are meant`.
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
            f"{name} is declared nowhere any more, and {stream} would land the same records again from the start "
            f"({position.totals.landed:,} rows up to seq {position.seq})",
            f"call it {name} again (id: {name} in its file); or, if both are meant{otherwise(name)}",
        )
    return None


def _plain(place: str) -> str:
    """A place that can be compared: `file:/p`, `file:///p` and `/p` are one folder, `s3a://` and `s3://` one bucket."""
    return re.sub(r"^(?:file:(?://)?(?=/)|s3[an]?(?=://))", "", place).rstrip("/")
