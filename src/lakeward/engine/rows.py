"""Invalid rows: the rule that a row fails, and its form in the quarantine table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from lakeward.connectors.decode.json import KEPT_BYTES
from lakeward.connectors.iceberg import quarantine
from lakeward.connectors.iceberg.quarantine import Kept
from lakeward.connectors.row_json import row_json
from lakeward.connectors.source import ERROR, RAW, REASON, VALUE, StreamSource
from lakeward.platform.errors import SpecError
from lakeward.spec.model.position_columns import INGESTED_AT, OWN_COLUMNS, POSITION_TYPES

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame


def check_rule(frame: DataFrame, rule: str, condition: str) -> None:
    """Analyse one rule against the transform's columns.

    Raises:
        SpecError: it is not a condition on these columns.
    """
    from pyspark.errors import AnalysisException, ParseException
    from pyspark.sql import functions as F

    try:
        kind = frame.select(F.expr(condition).alias("rule")).schema["rule"].dataType.typeName()
    except (AnalysisException, ParseException) as error:
        raise SpecError(
            f"Rule {rule} does not fit the transform's columns",
            why=str(error).splitlines()[0],
            next="correct rules: in the stream's file, then: lakeward deploy",
            code="LW-2214",
        ) from error
    if kind != "boolean":
        raise SpecError(
            f"Rule {rule} is not a condition",
            why=f"`{condition}` has the type {kind.upper()}, not BOOLEAN",
            next="correct rules: in the stream's file, then: lakeward deploy",
            code="LW-2213",
        )


def judged(frame: DataFrame, rules: Mapping[str, str]) -> DataFrame:
    """Rows with REASON: the first rule that a row fails, null if none.

    A row fails a rule only if the condition is false. NULL passes, as in SQL's CHECK: `dep_delay BETWEEN ..` passes for
    a cancelled flight. A rule that requires the value is `dep_delay IS NOT NULL`.
    """
    from pyspark.sql import functions as F

    broken = F.coalesce(
        *(F.when(F.expr(condition).eqNullSafe(F.lit(False)), F.lit(rule)) for rule, condition in rules.items()),
        F.lit(None).cast("string"),
    )
    return frame.withColumn(REASON, broken)


def undecoded(source: StreamSource, decoded: DataFrame) -> DataFrame:
    """The records that could not be decoded, in the columns of the quarantine table."""
    from pyspark.sql import functions as F

    return rejected(source, source.explain(decoded.where(F.col(REASON).isNotNull())))


def rejected(source: StreamSource, records: DataFrame, *more: str) -> DataFrame:
    """Records with REASON, ERROR and RAW, in the columns of the quarantine table.

    Args:
        more: further columns of `records` that it has.
    """
    from pyspark.sql import functions as F

    columns = [column for column in records.columns if column in OWN_COLUMNS]
    whole = Kept.RECORD if set(source.record) - {VALUE} <= set(columns) else Kept.VALUE
    return records.select(
        F.lit(source.name).alias(quarantine.SOURCE),
        *columns,
        F.col(REASON).alias(quarantine.REASON),
        F.col(RAW).alias(quarantine.RAW),
        F.col(ERROR).alias(quarantine.ERROR),
        (_kept(F.col(RAW), whole) if source.record else F.lit(None).cast("string")).alias(quarantine.KEPT),
        *more,
    )


def _kept(raw: Column, whole: Kept) -> Column:
    """How much of a record is in quarantine: a value of `KEPT_BYTES` or more was cut."""
    from pyspark.sql import functions as F

    return F.when(F.octet_length(raw) >= KEPT_BYTES, Kept.PART.value).otherwise(whole.value)


def broken(judgement: DataFrame, rules: Mapping[str, str], source: str, identity: Sequence[str]) -> DataFrame:
    """The rows that fail a rule, in the columns of the quarantine table: `row` and `raw` are the row as JSON, `error`
    is the text of the rule.

    Rows without a source position (aggregates) are identified by their content: a window is emitted once.
    """
    from pyspark.sql import functions as F

    # A row that is identified by file and content must be equal when the file is read again, so the time of its batch
    # is left out. For other rows this time distinguishes equal rows of two batches.
    left_out = {REASON, INGESTED_AT} if "_file_path" in identity else {REASON}
    own = [column for column in judgement.columns if column not in left_out]
    whole = row_json(judgement, own)
    text = F.create_map(*(F.lit(part) for pair in rules.items() for part in pair))
    columns = [F.col(column) for column in judgement.columns if column in POSITION_TYPES]
    places = [column for column in identity if column in POSITION_TYPES]
    if not set(places) <= set(own):
        columns = [F.lit(None).cast(POSITION_TYPES[c]).alias(c) for c in places if POSITION_TYPES[c] != "BIGINT"]
        columns += [F.xxhash64(whole).alias(c) for c in places if POSITION_TYPES[c] == "BIGINT"]
        columns += [F.current_timestamp().alias(INGESTED_AT)]
    return judgement.where(F.col(REASON).isNotNull()).select(
        F.lit(source).alias(quarantine.SOURCE),
        *columns,
        F.col(REASON).alias(quarantine.REASON),
        whole.cast("binary").alias(quarantine.RAW),
        F.concat(F.lit("not: "), F.try_element_at(text, F.col(REASON))).alias(quarantine.ERROR),
        F.lit(Kept.ROW.value).alias(quarantine.KEPT),
        whole.alias(quarantine.ROW),
    )


def with_record(broken: DataFrame, raw: DataFrame, source: StreamSource) -> DataFrame:
    """Replace invalid rows by their records, so that they can be decoded again.

    Args:
        broken: result of `broken`, with the position of each row.
        raw: the batch's records of this source.
    """
    from pyspark.sql import functions as F

    found, identity = "_lw_found", list(source.identity)
    columns = [column for column in source.record if column != VALUE]
    whole = raw.select(*identity, *source.record).join(F.broadcast(broken.select(*identity)), identity, "left_semi")
    both = broken.drop(*columns).join(whole.withColumn(found, F.lit(True)), identity, "left")
    here, value = F.col(found).isNotNull(), F.substring(F.col(VALUE), 1, KEPT_BYTES)
    return both.select(
        *(column for column in broken.columns if column not in (quarantine.RAW, quarantine.KEPT, *columns)),
        *columns,
        F.when(here, value).otherwise(F.col(quarantine.RAW)).alias(quarantine.RAW),
        F.when(here, _kept(value, Kept.RECORD)).otherwise(F.col(quarantine.KEPT)).alias(quarantine.KEPT),
    )
