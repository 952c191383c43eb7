"""For which rows a bound condition is true: with SQL's third value, as Spark reads the same condition.

PyIceberg's own evaluation knows true and false only: under `NOT` and `NOT IN` a NULL would be true, and an erase would
take rows that no SELECT with this condition shows. Arrow's set of values holds 0.0 or -0.0, which are one value in SQL.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

if TYPE_CHECKING:
    from pyiceberg.expressions import BooleanExpression

_COMPARED: Mapping[str, Callable[[Any, Any], Any]] = {
    "BoundEqualTo": pc.equal,
    "BoundNotEqualTo": pc.not_equal,
    "BoundLessThan": pc.less,
    "BoundLessThanOrEqual": pc.less_equal,
    "BoundGreaterThan": pc.greater,
    "BoundGreaterThanOrEqual": pc.greater_equal,
}


def true_of(bound: BooleanExpression, columns: pa.Table) -> pa.Array:
    """True for the rows that satisfy it, false for all others; never null."""
    found = _Rows(columns).truth(bound).fill_null(False)
    return found.combine_chunks() if isinstance(found, pa.ChunkedArray) else found


class _Rows:
    def __init__(self, columns: pa.Table) -> None:
        self.columns = columns

    def truth(self, bound: Any) -> Any:
        """True, false or null for each row."""
        name = type(bound).__name__
        if name == "And":
            return pc.and_kleene(self.truth(bound.left), self.truth(bound.right))
        if name == "Or":
            return pc.or_kleene(self.truth(bound.left), self.truth(bound.right))
        if name == "Not":
            return pc.invert(self.truth(bound.child))
        if name in ("AlwaysTrue", "AlwaysFalse"):
            return pa.array([name == "AlwaysTrue"] * self.columns.num_rows, pa.bool_())
        values = self.columns.column(bound.term.ref().field.name)
        if name in _COMPARED:
            return _COMPARED[name](values, self._scalar(bound, bound.literal, values))
        if name in ("BoundIsNull", "BoundNotNull"):
            return pc.is_null(values) if name == "BoundIsNull" else pc.is_valid(values)
        if name in ("BoundIsNaN", "BoundNotNaN"):
            return pc.is_nan(values) if name == "BoundIsNaN" else pc.invert(pc.is_nan(values))
        if name in ("BoundIn", "BoundNotIn"):
            found = self._among(bound, values)
            return found if name == "BoundIn" else pc.invert(found)
        if name in ("BoundStartsWith", "BoundNotStartsWith"):
            begins = pc.starts_with(values, bound.literal.value)
            return begins if name == "BoundStartsWith" else pc.invert(begins)
        raise TypeError(f"no rule for {name}")

    def _among(self, bound: Any, values: pa.ChunkedArray) -> Any:
        # One array: a conversion for each of 5,000 values takes longer than reading the file.
        literals = pa.array([each.value for each in bound.literals], self._type(bound)).cast(values.type)
        found = pc.is_in(values, literals)
        for each in literals if pa.types.is_floating(literals.type) else ():
            if each.as_py() == 0:
                found = pc.or_kleene(found, pc.equal(values, each))
        return pc.if_else(pc.is_null(values), pa.scalar(None, pa.bool_()), found)

    def _scalar(self, bound: Any, literal: Any, values: pa.ChunkedArray) -> pa.Scalar:
        return pa.scalar(literal.value, self._type(bound)).cast(values.type)

    @staticmethod
    def _type(bound: Any) -> pa.DataType:
        """The type of the column that a predicate compares."""
        from pyiceberg.io.pyarrow import schema_to_pyarrow

        return schema_to_pyarrow(bound.term.ref().field.field_type)
