"""Failures of a batch that its records cannot have caused: to skip them would lose rows and help nothing.

Records are read in the tasks of a job alone. What fails on the driver (analysis, planning, a commit) fails without a
record. What fails in a task is judged by a trial: one row of no record is written to the same table in the same way,
and never published. If that fails too, the table is at fault.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

import structlog

from lakeward.engine import jvm_errors
from lakeward.engine.gate import Draining
from lakeward.engine.sinks.base import StreamSink
from lakeward.platform.errors import Blocked, LakewardError, NotTheRecords
from lakeward.platform.failures import FailureClass, Judgement, judge

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

_log = structlog.get_logger(__name__)

_SUSPECTS: Final = (Judgement(FailureClass.INFRA), Judgement(FailureClass.POISON))
"""What may be blamed on the records if it repeats; every other class or cause explains itself."""
_TASK: Final = "org.apache.spark.scheduler.Task"
_JOB: Final = "Job aborted due to stage failure"
_OF_ROWS: Final = re.compile(r"VIOLATE_CONSTRAINT|CONSTRAINT_VIOLAT|NOT_NULL_ASSERT|CHECK constraint", re.IGNORECASE)
"""Conditions of a row against the table: a row of no record may break them too."""


@contextmanager
def failures_of(sink: StreamSink, session: SparkSession, columns: Any, stream: str, batch_id: int) -> Iterator[None]:
    """Turn a failure that the records of a batch cannot have caused into an error that says so.

    Args:
        sink: where the batch lands. Only one with `tried` is judged.
        columns: of the rows that land, as a Spark schema.

    Raises:
        NotTheRecords: the records are not the cause.
        Blocked: the trial found what blocks every batch.
    """
    try:
        yield
    except (LakewardError, Draining):
        raise
    except Exception as error:
        text = jvm_errors.of_error(error)
        if not sink.tried or not jvm_errors.chain(error) or judge(text=text) not in _SUSPECTS:
            raise
        found = _found(sink, session, columns, error, text)
        if found is None:
            raise
        where, words = found
        # Not `from error`: Spark matches the text of a failed `foreachBatch` against a pattern, and a long one
        # overflows the stack of the query's thread.
        raise NotTheRecords(
            f"Batch {batch_id} of stream {stream} cannot land, whatever its records are",
            why=f"{where}: {_shown(words)}",
            next="correct what it names (the table, its folder, its properties), then: "
            f"lakeward streams start {stream}",
            code="LW-2529",
        ) from None


def _found(
    sink: StreamSink, session: SparkSession, columns: Any, error: BaseException, text: str
) -> tuple[str, str] | None:
    """Why the records are not the cause, and the text of the failure that shows it; None if they may be."""
    if not in_task(error):
        return "it failed outside of the tasks that read records", text
    try:
        sink.trial(ordinary_row(session, columns))
    except Blocked:
        raise
    except LakewardError as unclear:
        _log.info("trial write without an answer", why=str(unclear))
        return None
    except Exception as failed:  # noqa: BLE001  # boundary: whatever the write raises is the answer
        said = jvm_errors.of_error(failed)
        return None if _OF_ROWS.search(said) or judge(text=said) not in _SUSPECTS else (
            "a write of one row that is no record fails too", said
        )  # fmt: skip
    return None


def in_task(error: BaseException) -> bool:
    """Whether an exception of Spark came from a task, by the stack of any throwable in its chain."""
    return any(
        frame.getClassName().startswith(_TASK)
        for throwable in jvm_errors.chain(error)
        for frame in throwable.getStackTrace()
    ) or _JOB in jvm_errors.of_error(error)


def ordinary_row(session: SparkSession, columns: Any) -> DataFrame:
    """One row of zeros, empty texts and the present time, which breaks no NOT NULL."""
    return session.range(0, 1, 1, 1).select(*(_ordinary(field.dataType).alias(field.name) for field in columns.fields))


def _ordinary(kind: Any) -> Column:
    from pyspark.sql import functions as F
    from pyspark.sql import types as T

    match kind:
        case T.StructType():
            return F.struct(*(_ordinary(field.dataType).alias(field.name) for field in kind.fields))
        case T.StringType():
            return F.lit("")
        case T.BooleanType():
            return F.lit(False)
        case T.BinaryType():
            return F.lit("").cast(kind)
        case T.DateType():
            return F.current_date()
        case T.TimestampType():
            return F.current_timestamp()
        case T.TimestampNTZType():
            return F.localtimestamp()
        case T.NumericType():
            return F.lit(0).cast(kind)
        case _:
            return F.lit(None).cast(kind)


def _shown(text: str) -> str:
    """The two innermost lines of a chain of causes, without what Spark says about the task."""
    lines = [line for line in text.splitlines() if line.strip()] or ["unknown"]
    return "; caused by ".join(line[:300] for line in [each for each in lines if _JOB not in each][-2:] or lines[-1:])
