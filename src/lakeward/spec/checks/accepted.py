"""What each column of a declared stream accepts, in one line each. The whole table: docs/reference/decode.md."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from lakeward.spec.model.formats import Formats
from lakeward.spec.model.sources import Source
from lakeward.spec.model.stream import StreamSpec
from lakeward.spec.sql.ddl import ddl_columns

_LONGEST = 60
_WIDE = 20
"""Columns of a source from which on its columns are shown together, by type."""
_NAMED = 3
"""Columns that are named where several are shown together."""


def accepted_columns(spec: StreamSpec) -> Iterator[str]:
    """A line for each column of a source that decodes JSON or CSV: `source.column TYPE: what it accepts`."""
    for name, columns in _by_source(spec):
        for column, kind, accepted in columns:
            yield f"{name}.{column} {kind}: {accepted}"


def accepted_types(spec: StreamSpec) -> Iterator[str]:
    """As `accepted_columns`, but a source of more than 20 columns has a line for each type, with its first columns."""
    for name, columns in _by_source(spec):
        together: dict[tuple[str, ...], list[str]] = {}
        for column, kind, accepted in columns:
            alone = () if len(columns) > _WIDE else (column,)
            together.setdefault((kind, accepted, *alone), []).append(column)
        for (kind, accepted, *_), alike in together.items():
            yield f"{name}.{_names(alike)} {kind}: {accepted}"


def _names(columns: Sequence[str]) -> str:
    more = len(columns) - _NAMED
    return ", ".join(columns) if more <= 0 else f"{', '.join(columns[:_NAMED])} and {more} more"


def _by_source(spec: StreamSpec) -> Iterator[tuple[str, list[tuple[str, str, str]]]]:
    """Each source that decodes JSON or CSV, with name, type (shortened) and what it accepts of each of its columns."""
    for name, source in spec.sources.items():
        csv = source.files is not None and source.files.format == "csv"
        ddl = source.files.columns if csv and source.files else source.decode.ddl if source.decode else None
        if ddl is not None:
            yield (
                name,
                [
                    (
                        column,
                        kind if len(kind) <= _LONGEST else kind[:_LONGEST] + "..",
                        accepts(kind, _formats(source), csv=csv),
                    )
                    for column, kind in ddl_columns(ddl).items()
                ],
            )


def _formats(source: Source) -> Formats:
    return source.decode.formats if source.decode is not None else Formats()


def accepts(kind: str, formats: Formats, *, csv: bool = False) -> str:
    """What a column of a type accepts.

    Args:
        kind: a Spark type in upper case, e.g. `DECIMAL(10,2)`.
        formats: the declared formats.
        csv: whether values come as text without types.
    """
    name = kind.partition("(")[0].partition("<")[0].partition(" ")[0]
    number = "a number" if csv else "a JSON number"
    match name:
        case "STRING":
            return "any text" if csv else "any value; a number keeps its text"
        case "BOOLEAN":
            return "true, false"
        case "BINARY":
            return "the bytes of its text" if csv else "base64 in a string"
        case "DOUBLE" | "FLOAT":
            return f"{number}; whole numbers exactly, fractions as the nearest value"
        case "DECIMAL":
            tokens = {None: "a number or string", "text": "a string", "number": "a JSON number"}
            return f"{number if csv else tokens[formats.decimals]} with exactly such a value"
        case "DATE":
            return "yyyy-MM-dd" if formats.dates == "iso" else formats.dates
        case "TIMESTAMP" | "TIMESTAMP_LTZ":
            return _timestamp(formats)
        case "TIMESTAMP_NTZ":
            return "yyyy-MM-ddTHH:mm:ss without a zone" if formats.timestamps in _FIXED else formats.timestamps
        case "ARRAY" | "MAP" | "STRUCT":
            return "its JSON, each value by its own type"
        case _:
            return f"a whole number in the range of {name}"


_FIXED = ("iso", "epoch_s", "epoch_ms")


def _timestamp(formats: Formats) -> str:
    match formats.timestamps:
        case "iso":
            other = "; without a zone: UTC" if formats.without_zone == "utc" else ""
            return f"yyyy-MM-ddTHH:mm:ss with a zone{other}"
        case "epoch_s":
            return "seconds since 1970"
        case "epoch_ms":
            return "milliseconds since 1970"
        case pattern:
            return pattern
