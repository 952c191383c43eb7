"""Preflight of a checkpoint before a start: compares its files with the table's position. Pure.

Spark silently resumes, with rows lost or duplicated, from a checkpoint without `metadata`, from an older copy and from
an empty folder. On a truncated file it fails at every restart without naming it. Each of these has a finding here.
`compatibility` compares the checkpoint with the query, `conflicts` with other streams.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from lakeward.connectors.commit_protocol.position import Position
from lakeward.engine.checkpoint.layout import COMMITS_VERSION, OFFSETS_VERSION, Checkpoint, Entry
from lakeward.platform.errors import Blocked


class Finding(StrEnum):
    """The state of a checkpoint. A stream can start from the first three."""

    FRESH = "fresh"
    CLEAN = "clean"
    REPLAY = "replay"  # the newest batch is unfinished and runs again
    TRUNCATED = "checkpoint-truncated"  # a file is truncated, unreadable or missing
    OLDER = "older-checkpoint"  # the table has batches that the checkpoint does not have
    AHEAD = "checkpoint-ahead"  # the checkpoint has finished batches that the table does not have
    FOREIGN = "foreign-checkpoint"  # of another query
    MISSING = "checkpoint-missing"
    NO_POSITION = "no-position"
    NEWER = "newer-checkpoint"  # a newer Spark wrote it
    SOURCES = "changed-sources"  # of other sources, or of the same in another order
    STATE = "damaged-state"  # the state store lacks the version that the next batch needs
    SHAPE = "changed-shape"  # the query keeps state now, or no longer does
    SHARED = "shared-checkpoint"  # another stream uses it too
    RENAMED = "renamed-stream"  # the stream has landed in the table under another id
    NESTED = "checkpoint-in-table"  # orphan file removal would delete it


@dataclass(frozen=True)
class Verdict:
    """A finding, with the text for people if the stream may not start."""

    finding: Finding
    what: str = ""
    why: str = ""
    next: str = ""

    @property
    def fit(self) -> bool:
        return self.finding in (Finding.FRESH, Finding.CLEAN, Finding.REPLAY)

    def check(self) -> Finding:
        """Return the finding if the stream may start.

        Raises:
            Blocked: it may not.
        """
        if not self.fit:
            raise Blocked(self.what, why=self.why, next=self.next, reason=str(self.finding), code="LW-2203")
        return self.finding


def classify(
    stream: str,
    checkpoint: Checkpoint,
    position: Position | None,
    *,
    exact: bool,
    known_query: str | None = None,
    begins: bool = True,
) -> Verdict:
    """Judge a checkpoint.

    Args:
        stream: its id, for the texts.
        checkpoint: the content of the folder.
        position: of the table; None without one.
        exact: whether the sink keeps a position.
        known_query: the last query id in the registry; compared if the sink keeps no position.
        begins: whether every source records where it begins, before its first batch.
    """
    landed_by = position.query_id if position is not None else None
    expected = landed_by if exact else known_query
    judges = (_presence, _versions, _files, _checksums, *([_beginning] if begins else []))
    for judge in judges:
        verdict = judge(stream, checkpoint, expected, position)
        if verdict is not None:
            return verdict
    if expected and checkpoint.query_id != expected:
        return Verdict(
            Finding.FOREIGN,
            f"The checkpoint of stream {stream} belongs to another query",
            f"{checkpoint.folder}/metadata has id {checkpoint.query_id}; {_holder(position)} query {expected}",
            f"lakeward streams recover {stream}   continues at the table's position; or put the right folder back",
        )
    newest, committed = checkpoint.newest, checkpoint.committed
    if position is None and exact and committed >= 0:
        return Verdict(
            Finding.NO_POSITION,
            f"Stream {stream} has a checkpoint with {committed + 1} finished batches, but its table has no position",
            f"{checkpoint.folder}/commits/{committed} exists: which of these batches the table has is unknown",
            f"give the stream a new id and a new table (conf/streams/{stream}.yaml), then: lakeward deploy",
        )
    if position is not None and landed_by:
        verdict = _against(stream, checkpoint, position, newest, committed)
        if verdict is not None:
            return verdict
    if newest < 0:
        return Verdict(Finding.FRESH)
    return Verdict(Finding.CLEAN if newest == committed else Finding.REPLAY)


def from_a_copy(stream: str) -> str:
    """The ways of a stream whose checkpoint cannot be made from the table's position."""
    another = f"give the stream a new id and a new table (conf/streams/{stream}.yaml)"
    return f"restore the checkpoint from a copy; or {another}"


def _presence(stream: str, checkpoint: Checkpoint, expected: str | None, position: Position | None) -> Verdict | None:
    if checkpoint.empty:
        if not expected:
            return Verdict(Finding.FRESH)
        return Verdict(
            Finding.MISSING,
            f"The checkpoint of stream {stream} is missing",
            f"{checkpoint.folder} is empty or missing; {_holder(position)} query {expected}. "
            "A start without it would land rows twice or leave a gap",
            f"lakeward streams recover {stream}   continues at the table's position",
        )
    if checkpoint.query_id is None:
        return Verdict(
            Finding.MISSING,
            f"The checkpoint of stream {stream} has no query id",
            f"{checkpoint.folder}/metadata is missing, but there are offsets: Spark would continue as a new query",
            f'put it back as {{"id":"{expected}"}}, or: lakeward streams recover {stream}'
            if expected
            else f"lakeward streams recover {stream}",
        )
    if checkpoint.query_id == "":
        return _truncated(
            stream, checkpoint, position, "metadata", "it has no query id", "put the file back from a copy"
        )
    return None


def _files(stream: str, checkpoint: Checkpoint, expected: str | None, position: Position | None) -> Verdict | None:
    newest, committed = checkpoint.newest, checkpoint.committed
    for number in sorted(checkpoint.offsets)[-2:]:
        if checkpoint.offsets[number].broken:
            unfinished = number == newest and number not in checkpoint.commits
            repair = (
                f"its batch never finished: remove {checkpoint.folder}/offsets/{number} (and .{number}.crc)"
                if unfinished
                else "put the file back from a copy"
            )
            broken = checkpoint.offsets[number].broken
            return _truncated(stream, checkpoint, position, f"offsets/{number}", broken, repair)
    if committed >= 0 and checkpoint.commits[committed].broken:
        return _truncated(
            stream,
            checkpoint,
            position,
            f"commits/{committed}",
            checkpoint.commits[committed].broken,
            f"remove {checkpoint.folder}/commits/{committed} (and .{committed}.crc): "
            "the batch runs again, and the table knows whether it landed",
        )
    if newest > 0 and newest - 1 not in checkpoint.offsets:
        why = "it is missing; Spark needs the newest two"
        return _truncated(stream, checkpoint, position, f"offsets/{newest - 1}", why, "put the file back from a copy")
    if committed > newest:
        return _truncated(
            stream,
            checkpoint,
            position,
            f"offsets/{committed}",
            f"it is missing, but commits/{committed} says that its batch is finished; it would be planned again",
            "put the file back from a copy",
        )
    return None


def _versions(stream: str, checkpoint: Checkpoint, expected: str | None, position: Position | None) -> Verdict | None:
    for kind, entries, most in (
        ("offsets", checkpoint.offsets, OFFSETS_VERSION),
        ("commits", checkpoint.commits, COMMITS_VERSION),
    ):
        for number, entry in sorted(entries.items()):
            if entry.version > most:
                return Verdict(
                    Finding.NEWER,
                    f"The checkpoint of stream {stream} was written by a newer Spark",
                    f"{checkpoint.folder}/{kind}/{number} has version v{entry.version}, this Spark reads up to v{most}",
                    f"run it on the Spark that wrote it, or: lakeward streams recover {stream}",
                )
    return None


def _checksums(stream: str, checkpoint: Checkpoint, expected: str | None, position: Position | None) -> Verdict | None:
    """Hadoop compares checksums at every restart and fails, without the name of the file that was edited by hand."""
    if not checkpoint.misfits:
        return None
    file = checkpoint.misfits[0]
    folder, _, name = file.rpartition("/")
    sums = f"{checkpoint.folder}/{folder + '/' if folder else ''}.{name}.crc"
    return _truncated(
        stream,
        checkpoint,
        position,
        file,
        f"its checksum in {sums} does not fit: the file was edited or damaged after it was written",
        f"put both back from a copy; or, if the file is right as it is, remove {sums}",
    )


def _beginning(stream: str, checkpoint: Checkpoint, expected: str | None, position: Position | None) -> Verdict | None:
    """Until batch 0 is finished, its start is recorded only in `sources/`. Without it Spark asks the broker."""
    if checkpoint.newest != 0 or checkpoint.committed >= 0:
        return None
    first = checkpoint.offsets[0]
    if first.continuous:
        return None
    for index, _ in enumerate(first.ends):
        entry = checkpoint.initial.get(index)
        if entry is None or entry.broken:
            return _truncated(
                stream,
                checkpoint,
                position,
                f"sources/{index}/0",
                f"{entry.broken if entry is not None else 'it is missing'}: batch 0 is unfinished and its start is "
                "unknown; Spark would begin at the newest records",
                f"no batch has landed yet: remove the folder {checkpoint.folder}",
            )
    return None


def _against(stream: str, checkpoint: Checkpoint, position: Position, newest: int, committed: int) -> Verdict | None:
    """Compare the batches of the checkpoint with the position of the same query."""
    recover = f"lakeward streams recover {stream}   continues at the table's position"
    if position.batch > newest:
        return Verdict(
            Finding.OLDER,
            f"The checkpoint of stream {stream} is an older copy",
            f"the table has batch {position.batch} (seq {position.seq}), the newest file is "
            f"{checkpoint.folder}/offsets/{newest if newest >= 0 else '(none)'}: new batches would be taken for landed "
            "ones",
            recover,
        )
    at = checkpoint.offsets.get(position.batch)
    if at is not None and not at.broken and not _same_ends(at, position):
        return Verdict(
            Finding.OLDER,
            f"The checkpoint of stream {stream} is an older copy with other batches",
            f"{checkpoint.folder}/offsets/{position.batch} ends at {', '.join(at.ends)}; the table has that batch up "
            f"to {', '.join(position.end.values())}",
            recover,
        )
    done = checkpoint.offsets.get(committed)
    if committed > position.batch and done is not None and not done.broken and not _same_ends(done, position):
        return Verdict(
            Finding.AHEAD,
            f"The checkpoint of stream {stream} is ahead of its table",
            f"{checkpoint.folder}/commits/{committed} says {', '.join(done.ends)} is landed; the table's position is "
            f"{', '.join(position.end.values())} (seq {position.seq}, batch {position.batch}): records between "
            "them would never land",
            recover,
        )
    return None


def _same_ends(entry: Entry, position: Position) -> bool:
    # The files do not name their sources, so the ends are compared without their order.
    return sorted(entry.ends) == sorted(position.end.values()) or not entry.ends


def _truncated(
    stream: str, checkpoint: Checkpoint, position: Position | None, file: str, why: str, repair: str
) -> Verdict:
    """A damaged file. The position, if there is one, needs no file of the checkpoint."""
    if position is not None:
        repair = f"lakeward streams recover {stream}   continues at the table's position; or {repair}"
    return Verdict(
        Finding.TRUNCATED,
        f"The checkpoint of stream {stream} is damaged",
        f"{checkpoint.folder}/{file}: {why}",
        repair,
    )


def _holder(position: Position | None) -> str:
    if position is None:
        return "the registry has"
    return f"the table has batches up to {position.batch} (seq {position.seq}) of"


def ends_of(checkpoint: Checkpoint, sources: list[str]) -> dict[str, str]:
    """The end of the last finished batch, by source name; empty with several sources, as the files do not name them."""
    done = checkpoint.offsets.get(max(checkpoint.commits, default=-1))
    return {sources[0]: done.ends[0]} if done is not None and len(sources) == len(done.ends) == 1 else {}
