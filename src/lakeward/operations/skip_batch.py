"""skip-batch: skip the records of the batch that failed, and continue after it."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import func

from lakeward.connectors.commit_protocol import checkpoint_batch
from lakeward.connectors.commit_protocol.checkpoint_batch import BatchFiles
from lakeward.connectors.commit_protocol.position import NO_DATA, Position, Skip, Totals
from lakeward.connectors.kafka import peek
from lakeward.connectors.kafka import position as kafka_position
from lakeward.connectors.kafka.position import Offsets
from lakeward.operations import sink_position
from lakeward.operations.generation import accept_again, next_checkpoint
from lakeward.operations.operation import HeldLocks
from lakeward.operations.request import Outcome, Plan, StreamOperation
from lakeward.operations.sink_position import SinkPosition
from lakeward.operations.stream import OnStream, spec_of
from lakeward.platform.errors import Refused, SpecError
from lakeward.platform.text import count
from lakeward.registry import batches, observations
from lakeward.registry.generations import Generation
from lakeward.registry.streams import Stream
from lakeward.spec.model.stream import StreamSpec


@dataclass(frozen=True)
class SkipPlan(Plan):
    """The batch's records, from `start` to `end` by source.

    Attributes:
        sink: the position that moves, as it was when the plan was made.
    """

    query_id: str = ""
    start: dict[str, str] = field(default_factory=dict)
    end: dict[str, str] = field(default_factory=dict)
    records: int = 0
    sink: SinkPosition = field(kw_only=True, repr=False)


class SkipBatch(OnStream[SkipPlan]):
    """Skips only the batch that failed last, as its checkpoint planned it. None of it may be in the table."""

    name = StreamOperation.SKIP_BATCH.value
    needs_comment = True
    needs_approval = True

    def plan(self) -> SkipPlan:
        row = self.row()
        self._check_failed(row)
        generation = self.generation(row.generation)
        return self._plan(generation, sink_position.of(self.context, spec_of(generation), "skip a batch of"))

    @property
    def batch(self) -> int:
        if self.request.batch is None:
            raise SpecError(
                "Missing option --batch",
                why=f"it names the batch of stream {self.stream} that failed",
                next=f"lakeward streams status {self.stream}   shows that batch",
                code="LW-2082",
            )
        return self.request.batch

    def _check_failed(self, row: Stream) -> None:
        """Check that the batch is the one that failed last.

        Raises:
            Refused: it is another one.
        """
        with self.context.connect() as connection:
            seen = observations.latest(connection).get(row.id)
        number = (row.blocked or {}).get("batch")
        if number is None and seen is not None and seen.query_state == "failed":
            number = (seen.error or {}).get("batch_id")
        if number is None:
            raise Refused(
                f"No batch of stream {row.id} has failed",
                why=f"the stream is {row.state}: {row.why}",
                next=f"lakeward streams status {row.id}",
                code="LW-2083",
            )
        if number != self.batch:
            raise Refused(
                f"Batch {self.batch} of stream {row.id} is not the one that failed",
                why=f"batch {number} failed; only the batch that failed can be skipped",
                next=f"lakeward streams skip-batch {row.id} --batch {number} --dry-run",
                code="LW-2084",
            )

    def _plan(self, generation: Generation, sink: SinkPosition) -> SkipPlan:
        sink_position.check_topics(self.context, sink, "skip a batch of")
        folder = self.context.runtime.checkpoint_of(generation.checkpoint)
        files = checkpoint_batch.read(self.context.runtime, folder, self.batch)
        end = self._batch_end(sink, files, folder)
        start = self._batch_start(sink, files, folder)
        low = {name: kafka_position.parse(text) for name, text in start.items()}
        high = {name: kafka_position.parse(text) for name, text in end.items()}
        number = sink_position.records_between(self.context, sink.spec, _from_first(start, end), end)
        lines, total = [], 0
        for name in sorted(end):
            for topic, parts in sorted(high[name].items()):
                for part, until in sorted(parts.items()):
                    from_ = low[name].get(topic, {}).get(part, 0)
                    if until > from_:
                        here = number.get((topic, part), until - from_)
                        total += here
                        holes = without_record(until - from_ - here)
                        lines.append(f"{topic}/{part}: {count(here, 'record')} ({from_} to {until - 1}{holes})")
        lines += self._sample(sink.spec, start, end)
        return SkipPlan(
            f"skip the {count(total, 'record')} of batch {self.batch} and continue after it",
            tuple(lines),
            {"batch": self.batch, "skipped": total, "start": start, "end": end},
            json.dumps([files.query_id, self.batch, start, end], sort_keys=True),
            str(files.query_id),
            start,
            end,
            total,
            sink=sink,
            drains=(self.stream,),
        )

    def _batch_end(self, sink: SinkPosition, files: BatchFiles, folder: str) -> dict[str, str]:
        """Where the batch ends, by source. Checkpoint and table must agree that it is the next one and has not landed.

        Raises:
            Refused: they disagree.
        """
        at, wrong = sink.position, None
        if files.ends is None or not files.query_id:
            wrong = f"{folder} does not contain the batch: offsets/{self.batch} or metadata cannot be read"
        elif files.finished or files.followed:
            wrong = f"{folder} records the batch as finished: its commit or a later batch is there"
        elif at is not None and at.query_id not in ("", files.query_id):
            wrong = f"{folder} is of query {files.query_id}, but the table was written by query {at.query_id}"
        elif at is not None and at.query_id and at.batch >= self.batch:
            wrong = f"the batch has landed in {sink.name}: the position is at batch {at.batch} (seq {at.seq})"
        if wrong is None and files.ends is not None:
            return by_source(sink.spec, files.ends)
        raise Refused(
            f"Cannot skip batch {self.batch} of stream {self.stream}",
            why=wrong or "",
            next=f"lakeward streams status {self.stream}",
            code="LW-2080",
        )

    def _batch_start(self, sink: SinkPosition, files: BatchFiles, folder: str) -> dict[str, str]:
        """Where the batch begins: at the end of the table's position. The checkpoint must agree."""
        planned = None if files.begins is None else by_source(sink.spec, files.begins)
        if sink.position is None:
            if planned is not None and self.batch == 0:
                return planned
            why = f"{sink.name} has no position of the stream, and {folder} does not record where its first batch began"
        else:
            end = sink.position.end
            if planned is None or self.batch == 0 or _parsed(planned) == _parsed(end):
                return dict(end)
            why = f"the position ends at {end}, but the batch begins at {planned}"
        raise Refused(
            f"Cannot skip batch {self.batch} of stream {self.stream}",
            why=why,
            next=f"lakeward streams reset {self.stream} --to FILE --dry-run   continues at named offsets",
            code="LW-2081",
        )

    def _sample(self, spec: StreamSpec, start: dict[str, str], end: dict[str, str]) -> list[str]:
        lines = []
        for name, (source, cluster, _) in sink_position.kafka_of(self.context, spec).items():
            first, last = kafka_position.parse(start.get(name, NO_DATA)), kafka_position.parse(end.get(name, NO_DATA))
            found = peek.records(cluster, first, last, isolation=source.isolation_level)
            lines += [f"  {record.text}" for record in found]
        return lines

    def drained_plan(self, plan: SkipPlan) -> SkipPlan:
        """The plan, made again after the stream has stopped."""
        generation = self.generation(self.row().generation)
        return self._plan(generation, sink_position.of(self.context, spec_of(generation), "skip a batch of"))

    def apply(self, plan: SkipPlan, held: HeldLocks) -> Outcome:
        generation, sink = self.generation(self.row().generation), plan.sink
        end = sink_position.with_new_partitions(self.context, sink.spec, plan.end)
        held.check()
        moved = sink.write(self._new_position(sink, plan, end, generation))
        folder = next_checkpoint(generation.checkpoint, self.stream)
        with self.context.connect() as connection:
            number = accept_again(connection, generation, folder, self.context.author)
            batches.record(
                connection,
                stream=self.stream,
                query_id=plan.query_id,
                batch_id=self.batch,
                seq=moved.seq,
                generation=generation.generation,
                start_offsets=plan.start,
                end_offsets=plan.end,
                consumed=0,
                landed=0,
                quarantined=0,
                filtered=0,
                skipped=plan.records,
                committed_at=func.now(),
            )
            before = sink.position
            self.changed(
                connection,
                {"end": before.end if before else None, "seq": before.seq if before else 0, "batch": self.batch,
                 "query_id": plan.query_id, "checkpoint": generation.checkpoint, "generation": generation.generation},
                {"end": moved.end, "seq": moved.seq, "skipped": plan.records, "checkpoint": folder,
                 "generation": number},
            )  # fmt: skip
        detail = f"{count(plan.records, 'record')} of batch {self.batch} skipped, the position is seq {moved.seq}"
        return self.done(detail, plan.data)

    def _new_position(
        self, sink: SinkPosition, plan: SkipPlan, end: dict[str, str], generation: Generation
    ) -> Position:
        before = sink.position or Position.before_first(generation.generation, plan.start)
        return before.moved(
            "skip",
            self.context.author,
            end=end,
            skips=(*before.skips, Skip(start=plan.start, end=plan.end)),
            topic_ids=before.topic_ids or sink_position.topic_ids(self.context, sink.spec),
            totals=before.totals.plus(Totals(skipped=plan.records)),
        )


def _from_first(start: Mapping[str, str], end: Mapping[str, str]) -> dict[str, str]:
    """`start` with every partition of `end`; a new partition begins at offset 0."""
    whole = {}
    for name, text in end.items():
        low = kafka_position.parse(start.get(name, NO_DATA))
        whole[name] = kafka_position.render(
            {t: {p: low.get(t, {}).get(p, 0) for p in parts} for t, parts in kafka_position.parse(text).items()}
        )
    return whole


def without_record(holes: int) -> str:
    """Offsets without a record, as the rest of a sentence; empty without any."""
    return f", of which {count(holes, 'offset')} without a record" if holes > 0 else ""


def _parsed(ends: Mapping[str, str]) -> dict[str, Offsets]:
    return {name: kafka_position.parse(text) for name, text in ends.items()}


def by_source(spec: StreamSpec, texts: tuple[str, ...]) -> dict[str, str]:
    """The lines of an offsets file by source. With several sources, the topics decide.

    Raises:
        Refused: a line belongs to no source or to several.
    """
    names = [str(name) for name in spec.sources]
    if len(names) == 1 == len(texts):
        return {names[0]: texts[0]}
    by_name: dict[str, str] = {}
    for text in texts:
        topics = set(kafka_position.parse(text))
        fits = [
            str(name)
            for name, source in spec.sources.items()
            if source.kafka is not None
            and topics
            and all(_reads(source.kafka.topics, source.kafka.pattern, t) for t in topics)
        ]
        if len(fits) != 1 or fits[0] in by_name:
            raise Refused(
                f"Cannot match the checkpoint's offsets to the sources of stream {spec.id}",
                why=f"offsets of {', '.join(sorted(topics)) or 'no topic yet'} fit {', '.join(fits) or 'no source'}",
                next=f"lakeward streams reset {spec.id} --to FILE --dry-run   continues at named offsets",
                code="LW-2085",
            )
        by_name[fits[0]] = text
    return by_name


def _reads(topics: tuple[Any, ...], pattern: str | None, topic: str) -> bool:
    return topic in {str(name) for name in topics} or bool(pattern and re.fullmatch(pattern, topic))
