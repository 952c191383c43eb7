"""State that a changed query cannot use: recognizes the error of Spark's own check and explains it.

Spark compares the types in the state store with those of the query before a batch changes them. So the state is intact
after the error, and the previous generation can continue with it.
"""

from __future__ import annotations

import re
from typing import Any

from lakeward.engine.assignment import Assignment
from lakeward.platform.errors import Blocked

REASON = "state-unfit"
_SAYS = re.compile(
    r"STATE_STORE_(?:KEY|VALUE)_SCHEMA_NOT_COMPATIBLE|STATE_STORE_COLUMN_FAMILY_SCHEMA_INCOMPATIBLE"
    r"|STATE_STORE_INVALID_(?:CONFIG_AFTER_RESTART|VARIABLE_TYPE_CHANGE|VALUE_SCHEMA_EVOLUTION)"
    r"|STATE_STORE_(?:KEY|VALUE)_ROW_FORMAT_VALIDATION_FAILURE|STREAMING_STATEFUL_OPERATOR_NOT_MATCH_IN_STATE_METADATA"
)
_PAIR = re.compile(r"Existing (\w+)_schema=(.*?) and new \w+_schema=(.*?)\.\s*(?:If|$)", re.DOTALL)
_FIELD = re.compile(r"StructField\(([^(),]+),(\w+?)Type(\([^)]*\))?,(?:true|false)\)")


def of(assignment: Assignment, throwable: Any) -> Blocked | None:
    """The error of a stream whose state does not fit; None for another failure.

    Args:
        throwable: the JVM's exception of the query.
    """
    for _ in range(20):  # a chain of causes can be a circle
        if throwable is None:
            return None
        text = str(throwable.getMessage() or "")
        if _SAYS.search(text):
            return blocked(assignment, text)
        throwable = throwable.getCause()
    return None


def blocked(assignment: Assignment, text: str) -> Blocked:
    """The error for Spark's text: the columns in the state, those of the query, and what a person can do."""
    stream, condition = assignment.stream, _SAYS.search(text)
    pair = _PAIR.search(text)
    if pair:
        stored, needed = (columns(struct) for struct in pair.group(2, 3))
        difference = f"its {pair[1]}s are ({stored}), this generation's would be ({needed})"
    else:
        difference = text.split("] ", 1)[-1].splitlines()[0].rstrip(".")
    return Blocked(
        f"The state of stream {stream} does not fit generation {assignment.generation}",
        why=f"{assignment.checkpoint}/state: {difference}. The state was not changed "
        f"({condition[0] if condition else 'Spark'})",
        next=f"lakeward streams rollback {stream}   runs the previous generation, which can use the state; or give "
        f"the changed stream a new id and a new table (conf/streams/{stream}.yaml), then: lakeward deploy",
        reason=REASON,
        code="LW-2204",
    )


def columns(struct: str) -> str:
    """`StructType(StructField(count,LongType,false))` as `count LONG`; unchanged if it is nested."""
    fields = _FIELD.findall(struct)
    plain = _FIELD.sub("", struct).replace("StructType", "").strip("(), ")
    return struct if plain or not fields else ", ".join(f"{name} {kind.upper()}{size}" for name, kind, size in fields)
