"""Splitting rows: which rules a row breaks, and the shape in which bad rows are kept aside."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from lakeward.connectors.decode.json import KEPT_BYTES
from lakeward.connectors.iceberg import quarantine
from lakeward.connectors.iceberg.quarantine import Kept
from lakeward.connectors.source import ERROR, RAW, REASON, VALUE, StreamSource
from lakeward.platform.errors import SpecError
from lakeward.spec.model.position_columns import INGESTED_AT, OWN_COLUMNS, POSITION_TYPES

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame


def check_rule(frame: DataFrame, rule: str, condition: str) -> None:
    """Analyse one rule against the transform's columns.

    Raises:
        SpecError: it is not a condition on them.
    """
    from pyspark.errors import AnalysisException, ParseException
    from pyspark.sql import functions as F

    try:
        kind = frame.select(F.expr(condition).alias("rule")).schema["rule"].dataType.typeName()
    except (AnalysisException, ParseException) as error:
        raise SpecError(
            f"Rule {rule} does not fit the transform's columns", why=str(error).splitlines()[0], code="LW-2214"
        ) from error
    if kind != "boolean":
        raise SpecError(
            f"Rule {rule} is no condition", why=f"`{condition}` gives {kind.upper()}, not true or false", code="LW-2213"
        )


def judged(frame: DataFrame, rules: Mapping[str, str]) -> DataFrame:
    """Rows with REASON: the first rule a row breaks, null if none.

    A rule is broken by `false` alone. One that cannot be known (null) holds, as in SQL's CHECK: `dep_delay BETWEEN ..`
    says nothing about a cancelled flight; whoever wants the value writes a rule `dep_delay IS NOT NULL`.
    """
    from pyspark.sql import functions as F

    broken = F.coalesce(
        *(F.when(F.expr(condition).eqNullSafe(F.lit(False)), F.lit(rule)) for rule, condition in rules.items()),
        F.lit(None).cast("string"),
    )
    return frame.withColumn(REASON, broken)


def undecoded(inlet: StreamSource, decoded: DataFrame) -> DataFrame:
    """The records that could not be decoded, shaped for the quarantine table."""
    from pyspark.sql import functions as F

    kept = [column for column in decoded.columns if column in OWN_COLUMNS]
    whole = Kept.RECORD if set(inlet.record) - {VALUE} <= set(kept) else Kept.VALUE
    return inlet.explain(decoded.where(F.col(REASON).isNotNull())).select(
        F.lit(inlet.name).alias(quarantine.SOURCE),
        *kept,
        F.col(REASON).alias(quarantine.REASON),
        F.col(RAW).alias(quarantine.RAW),
        F.col(ERROR).alias(quarantine.ERROR),
        (_kept(F.col(RAW), whole) if inlet.record else F.lit(None).cast("string")).alias(quarantine.KEPT),
    )


def _kept(raw: Column, whole: Kept) -> Column:
    """What a record's value is that was cut to `KEPT_BYTES`."""
    from pyspark.sql import functions as F

    return F.when(F.octet_length(raw) >= KEPT_BYTES, Kept.PART.value).otherwise(whole.value)


def broken(judgement: DataFrame, rules: Mapping[str, str], source: str, identity: Sequence[str]) -> DataFrame:
    """The rows that broke a rule, shaped for the quarantine table: `row` and `raw` are the row as JSON, `error` the
    rule's text.

    Rows without a source position (aggregates) are identified by their content: a window is emitted once.
    """
    from pyspark.sql import functions as F

    # A row that is known by its file and its content must be the same when the file is read again. Elsewhere the time
    # of its batch tells it from an equal row of another one.
    unsaid = {REASON, INGESTED_AT} if "_file_path" in identity else {REASON}
    own = [column for column in judgement.columns if column not in unsaid]
    whole = F.to_json(F.struct(*(F.col(f"`{column}`") for column in own)))
    text = F.create_map(*(F.lit(part) for pair in rules.items() for part in pair))
    kept = [F.col(column) for column in judgement.columns if column in POSITION_TYPES]
    places = [column for column in identity if column in POSITION_TYPES]
    if not set(places) <= set(own):
        kept = [F.lit(None).cast(POSITION_TYPES[c]).alias(c) for c in places if POSITION_TYPES[c] != "BIGINT"]
        kept += [F.xxhash64(whole).alias(c) for c in places if POSITION_TYPES[c] == "BIGINT"]
        kept += [F.current_timestamp().alias(INGESTED_AT)]
    return judgement.where(F.col(REASON).isNotNull()).select(
        F.lit(source).alias(quarantine.SOURCE),
        *kept,
        F.col(REASON).alias(quarantine.REASON),
        whole.cast("binary").alias(quarantine.RAW),
        F.concat(F.lit("not: "), F.try_element_at(text, F.col(REASON))).alias(quarantine.ERROR),
        F.lit(Kept.ROW.value).alias(quarantine.KEPT),
        whole.alias(quarantine.ROW),
    )


def with_record(broken: DataFrame, raw: DataFrame, inlet: StreamSource) -> DataFrame:
    """Put the records of broken rows in the place of the rows, so that they can be decoded again.

    Args:
        broken: as `broken` gives them, with the position of each.
        raw: the batch's records, of this inlet.
    """
    from pyspark.sql import functions as F

    found, identity = "_lw_found", list(inlet.identity)
    beside = [column for column in inlet.record if column != VALUE]
    wanted = raw.select(*identity, *inlet.record).join(F.broadcast(broken.select(*identity)), identity, "left_semi")
    both = broken.drop(*beside).join(wanted.withColumn(found, F.lit(True)), identity, "left")
    here, value = F.col(found).isNotNull(), F.substring(F.col(VALUE), 1, KEPT_BYTES)
    return both.select(
        *(column for column in broken.columns if column not in (quarantine.RAW, quarantine.KEPT, *beside)),
        *beside,
        F.when(here, value).otherwise(F.col(quarantine.RAW)).alias(quarantine.RAW),
        F.when(here, _kept(value, Kept.RECORD)).otherwise(F.col(quarantine.KEPT)).alias(quarantine.KEPT),
    )
