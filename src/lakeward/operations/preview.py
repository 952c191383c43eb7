"""Preview of a stream's transform on a sample of its source: landed rows, quarantined records, reasons. Read only.

The sample goes through the same decoding, SQL and rules as a batch, in a session without catalogs.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lakeward.connectors import source_types
from lakeward.connectors.iceberg import quarantine
from lakeward.connectors.kafka import broker, cluster, sample
from lakeward.connectors.python import packages
from lakeward.connectors.python.code import UserCodeFailed, worker_summary
from lakeward.connectors.reference.choose import reader_of
from lakeward.connectors.row_json import TIMES
from lakeward.connectors.source import REASON
from lakeward.engine import flow, rows, transform
from lakeward.platform.errors import SpecError
from lakeward.platform.runtime import Runtime
from lakeward.spec.model.position_columns import INGESTED_AT
from lakeward.spec.model.stream import StreamSpec
from lakeward.spec.sql.statements import quote

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Samples = Mapping[str, Sequence[sample.Row]]
"""Source name -> raw records."""


@dataclass(frozen=True)
class Preview:
    """Result of a preview.

    Attributes:
        read: records of the sample, over all sources.
        columns: name -> type of the transform's result.
        rows: the first rows that would land; `landed` is their number.
        quarantined: `{source, record, reason, error}` of records that would go to quarantine.
        notes: limits of the sample.
    """

    read: int
    columns: dict[str, str]
    rows: list[dict[str, Any]]
    landed: int
    quarantined: list[dict[str, Any]]
    notes: tuple[str, ...]


def newest_samples(spec: StreamSpec, runtime: Runtime, most: int) -> Samples:
    """The newest records of every Kafka source, at most `most` of each.

    Raises:
        SpecError: a source has no preview yet.
        DependencyDown: a broker does not answer.
    """
    samples = {}
    for name, source in spec.sources.items():
        if source.from_table is not None or source.kinesis is not None:
            continue  # such a source reads its newest records itself
        if source.kafka is None:
            why = f"its connector is {source.connector}; previews exist for Kafka, Kinesis, Iceberg and Delta"
            next_ = "lakeward config validate --deep   checks types and columns without a sample"
            raise SpecError(f"Source {name} cannot be previewed yet", why=why, next=next_, code="LW-2029")
        at = cluster.find(source.kafka.connection, runtime)
        topics = sorted(broker.topic_ids(at, source.kafka))
        isolation = source.kafka.isolation_level
        begin, end = broker.begin_offsets(at, topics), broker.end_offsets(at, topics, isolation=isolation)
        samples[str(name)] = sample.newest(at, begin, end, most, isolation)
    return samples


def of(session: SparkSession, spec: StreamSpec, runtime: Runtime, samples: Samples, most: int) -> Preview:
    """Run the transform on the samples; returns at most `most` rows.

    Raises:
        SpecError: the SQL or a rule does not fit the records, or fails on one.
    """
    from pyspark.errors import PySparkException
    from pyspark.sql import functions as F

    quarantined: list[DataFrame] = []
    packages.activate(session, str(spec.id), spec.packages, runtime.environments)
    try:
        frames = {}
        for name, reference in spec.reference.items():
            reader = reader_of(str(name), reference, runtime)
            frames[str(name)] = reader.read(session, reader.version(session))
        sources = source_types.of(spec, runtime)
        read = 0
        for source in sources:
            raw = source.newest(session, most)
            if raw is None:
                raw = session.createDataFrame(list(samples[source.name]), sample.COLUMNS)
                raw = raw.withColumn(INGESTED_AT, F.current_timestamp())
            read += raw.count()
            decoded = source.decode(raw)
            quarantined.append(rows.undecoded(source, decoded))
            accepted = flow.good(source, decoded)
            if (unique := source.spec.deduplicate) is not None:
                accepted = accepted.dropDuplicates([str(key) for key in unique.keys])
            frames[source.name] = accepted
        for view, frame in frames.items():
            frame.createOrReplaceTempView(view)
        result = transform.apply(session, spec, frames)
        rules = {str(name): str(condition) for name, condition in spec.rules.items()}
        for rule, condition in rules.items():
            rows.check_rule(result, rule, condition)
        if rules:
            judged = rows.judged(result, rules)
            origin = next(iter(spec.sources)) if len(spec.sources) == 1 else "transform"
            identity = sources[0].identity
            quarantined.append(rows.broken(judged, rules, str(origin), identity))
            good = judged.where(F.col(REASON).isNull()).drop(REASON)
        else:
            good = result
        return Preview(
            read=read,
            columns={field.name: field.dataType.simpleString() for field in result.schema.fields},
            rows=_json(good.limit(most)),
            landed=good.count(),
            quarantined=[_quarantined_entry(row) for frame in quarantined for row in _json(frame)],
            notes=tuple(_notes(spec, rows_stay_rows=spec.lineage == "rows")),
        )
    except UserCodeFailed as error:
        raise SpecError(
            f"The transform of stream {spec.id} does not work on this sample",
            why=f"{error.what}: {error.why}",
            next=f"correct it in python/, then: lakeward streams preview {spec.id}",
            code="LW-2030",
        ) from error
    except PySparkException as error:
        raise SpecError(
            f"The transform of stream {spec.id} does not work on this sample",
            why=worker_summary(str(error)) or transform.first_line(error),
            next=f"correct conf/streams/{spec.id}.yaml, then: lakeward streams preview {spec.id}",
            code="LW-2031",
        ) from error


def _json(frame: DataFrame) -> list[dict[str, Any]]:
    """Rows as JSON values: times as text, bytes in base64."""
    from pyspark.sql import functions as F

    whole = F.to_json(F.struct(*(F.col(quote(name)) for name in frame.columns)), TIMES | {"ignoreNullFields": "false"})
    return [json.loads(row[0]) for row in frame.select(whole).collect()]


def _quarantined_entry(row: Mapping[str, Any]) -> dict[str, Any]:
    place = [row.get(name) for name in ("_kafka_topic", "_kafka_partition", "_kafka_offset")]
    known = None if place[0] is None else f"{place[0]}/{place[1]} offset {place[2]}"
    return {
        "source": row[quarantine.SOURCE],
        "record": known,
        "reason": row[quarantine.REASON],
        "error": row[quarantine.ERROR],
    }


def _notes(spec: StreamSpec, *, rows_stay_rows: bool) -> list[str]:
    notes = []
    if not rows_stay_rows:
        notes.append("groups and joins see only the sample; a stream lands them when their watermark has passed")
    if any(source.deduplicate for source in spec.sources.values()):
        notes.append("only duplicates within the sample are dropped")
    return notes
