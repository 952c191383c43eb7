"""State that a changed query cannot go on with, in the words of Spark's own check.

Spark compares the types of what is kept with the query's before a batch touches them, so nothing of the state has
changed when it refuses: the generation before goes on with it.
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


def of(wanted: Assignment, throwable: Any) -> Blocked | None:
    """The block of a stream whose state does not fit; None where its failure is another.

    Args:
        throwable: what the query failed of, of the JVM.
    """
    for _ in range(20):  # causes can point at themselves
        if throwable is None:
            return None
        said = str(throwable.getMessage() or "")
        if _SAYS.search(said):
            return blocked(wanted, said)
        throwable = throwable.getCause()
    return None


def blocked(wanted: Assignment, said: str) -> Blocked:
    """Spark's text as a block: what is kept, what the query would keep, and the two ways on."""
    stream, condition = wanted.stream, _SAYS.search(said)
    pair = _PAIR.search(said)
    if pair:
        kept, asked = (columns(each) for each in pair.group(2, 3))
        told = f"its {pair[1]}s are ({kept}), this generation's would be ({asked})"
    else:
        told = said.split("] ", 1)[-1].splitlines()[0].rstrip(".")
    return Blocked(
        f"The state of stream {stream} does not fit generation {wanted.generation}",
        why=f"{wanted.checkpoint}/state: {told}. Nothing of it was changed ({condition[0] if condition else 'Spark'})",
        next=f"lakeward streams rollback {stream}   runs the generation before, which goes on with its state; or give "
        f"the changed stream a new id and a new table (conf/streams/{stream}.yaml), then: lakeward deploy",
        reason=REASON,
        code="LW-2204",
    )


def columns(struct: str) -> str:
    """`StructType(StructField(count,LongType,false))` as `count LONG`; as it stands where it is nested."""
    fields = _FIELD.findall(struct)
    plain = _FIELD.sub("", struct).replace("StructType", "").strip("(), ")
    return struct if plain or not fields else ", ".join(f"{name} {kind.upper()}{size}" for name, kind, size in fields)
