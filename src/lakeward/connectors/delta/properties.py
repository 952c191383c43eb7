"""Properties of a Delta table whose values Delta parses: which values it cannot read, and what fails by them. Pure.

Spark refuses such a value when it sets one; other writers do not. Delta parses most of them whenever it opens the
table, so that also the statement fails that would set them right, and some of them only after it has committed:
the rows are in the table, and the batch fails. A commit to the log that reads no property can mend the table (`amend`).
What Delta does not read where it matters (`delta.logRetentionDuration`: a clean-up that does not happen) stops nothing.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Final

from lakeward.connectors.delta.column_mapping import MODE, MODES, SET_BY_OWNER
from lakeward.platform.text import word

ACTS: Final = frozenset({"land", "compact", "expire"})
_WRITE: Final = frozenset({"land", "compact"})
KEPT: Final = "interval 3650 days"
"""Instead of a retention that cannot be read: its owner set it to keep something, so nothing is deleted by it."""


@dataclass(frozen=True)
class Kind:
    """A kind of value.

    Attributes:
        fits: whether Delta reads a value of the table.
        valid: what it reads, after "valid is".
        lands: whether it lands with a value that does not fit, and fails where it computes with it.
    """

    fits: Callable[[str], bool]
    valid: str
    lands: Callable[[str], bool] = lambda value: False


@dataclass(frozen=True)
class Parsed:
    """A property that Delta parses.

    Attributes:
        kind: its values.
        mended: what a value that cannot be read is set to: Delta's default, or what deletes nothing; None if only the
            owner of the table knows it.
        stops: what fails by such a value.
    """

    kind: Kind
    mended: str | None
    stops: frozenset[str] = ACTS


CONSTRAINT: Final = "delta.constraints."
"""Prefix of the table's CHECK constraints, whose text only Spark's parser can judge."""
_PART: Final = re.compile(
    r"([+-]?)\s*(?:(\d{1,18})\s+(microsecond|millisecond|minute|hour|day|week)s?|(\d{1,18}(?:\.\d{1,9})?)\s+seconds?)"
)
_INTERVAL: Final = re.compile(rf"(?:interval\s+)?{_PART.pattern}(?:\s+{_PART.pattern})*")
_SECONDS: Final = {
    "microsecond": 1e-6, "millisecond": 1e-3, "minute": 60, "hour": 3_600, "day": 86_400, "week": 604_800,
}  # fmt: skip


def seconds(text: str) -> float | None:
    """The length of an interval as Delta reads it: `interval 7 days`, `1 week 12 hours`; None if it is none.

    Months and years have no fixed length: Delta takes them when it parses, and fails when it computes.
    """
    total = _length(text)
    return None if total is None or total < 0 else total


def _length(text: str) -> float | None:
    text = text.strip().lower()
    if _INTERVAL.fullmatch(text) is None:
        return None
    return sum(
        (-1 if sign == "-" else 1) * (float(plain) if plain else int(number) * _SECONDS[unit])
        for sign, number, unit, plain in _PART.findall(text.removeprefix("interval"))
    )


def _one_of(*words: str) -> Kind:
    return Kind(lambda value: value.lower() in {each.lower() for each in words}, " or ".join(words))


def _whole(least: int, most: int = 2**31 - 1) -> Kind:
    def fits(value: str) -> bool:
        return re.fullmatch(r"[+-]?[0-9]{1,10}", value) is not None and least <= int(value) <= most

    return Kind(fits, f"a whole number from {least} on")


_SWITCH: Final = _one_of("true", "false")
_TIME: Final = Kind(
    lambda value: seconds(value) is not None,
    "an interval from 0 on without months, e.g. interval 7 days",
    lambda value: _length(value) is not None,
)
_VERSION: Final = Kind(lambda value: re.fullmatch(r"\d+\.\d+\.\d+\S*", value) is not None, "a version, e.g. 1.0.0")
_JSON: Final = Kind(lambda value: _is_object(value), "a JSON object of texts")
_COORDINATOR: Final = "delta.coordinatedCommits.commitCoordinator-preview"
_NO_VALUE: Final = Kind(lambda value: False, "none: commits of a coordinator are not in the log's folder")
PARSED: Final[Mapping[str, Parsed]] = {
    **{
        f"delta.{name}": Parsed(_SWITCH, "false")
        for name in (
            "appendOnly", "enableChangeDataFeed", "enableDeletionVectors", "enableRowTracking", "enableTypeWidening",
            "enableInCommitTimestamps", "enableIcebergCompatV1", "enableIcebergCompatV2", "enableIcebergCompatV3",
            "enableVariantShredding", "enableMaterializePartitionColumnsFeature",
        )
    },
    "delta.checkpoint.writeStatsAsJson": Parsed(_SWITCH, "true"),
    "delta.checkpointInterval": Parsed(_whole(1), "10"),
    "delta.checkpointPolicy": Parsed(_one_of("classic", "v2"), "classic"),
    MODE: Parsed(_one_of(*MODES), None),
    _COORDINATOR: Parsed(_NO_VALUE, None),
    **{f"delta.coordinatedCommits.{name}-preview": Parsed(_JSON, "{}") for name in (
        "commitCoordinatorConf", "tableConf",
    )},
    "delta.dataSkippingNumIndexedCols": Parsed(_whole(-(2**31)), "32"),
    "delta.deletedFileRetentionDuration": Parsed(_TIME, KEPT),
    "delta.isolationLevel": Parsed(_one_of("Serializable", "WriteSerializable", "SnapshotIsolation"), "Serializable"),
    "delta.setTransactionRetentionDuration": Parsed(_TIME, KEPT),
    "delta.dataSkippingStringPrefixLength": Parsed(_whole(0), "32", _WRITE),
    "delta.parquet.format.version": Parsed(_VERSION, "1.0.0", _WRITE),
    "delta.randomizeFilePrefixes": Parsed(_SWITCH, "false", _WRITE),
    "delta.writePartitionColumnsToParquet": Parsed(_SWITCH, "false", _WRITE),
    "delta.autoOptimize.optimizeWrite": Parsed(_SWITCH, "false", frozenset({"land"})),
}  # fmt: skip
"""Each as Spark 4.1 with Delta 4.4 fails by it: tests/spark/connectors/delta/test_properties.py."""


def unreadable(properties: Mapping[str, str]) -> dict[str, str]:
    """Each property that Delta cannot read and that a command sets right -> what it is set to instead."""
    return {name: mended for name in _wrong(properties) if (mended := PARSED[name].mended) is not None}


def stopping(properties: Mapping[str, str], act: str) -> dict[str, str]:
    """The properties by which an act (one of `ACTS`) fails, with their values."""
    found = {name: properties[name] for name in _wrong(properties) if act in PARSED[name].stops}
    return {name: value for name, value in found.items() if act == "expire" or not PARSED[name].kind.lands(value)}


def words(odd: Mapping[str, str]) -> str:
    """What is wrong with properties: `delta.appendOnly is 'ja'; valid is true or false`. Empty for none."""
    return ", and ".join(f"{name} is {value!r}; valid is {_valid(name)}" for name, value in odd.items())


def _valid(name: str) -> str:
    return "a condition of Spark SQL" if name.startswith(CONSTRAINT) else PARSED[name].kind.valid


def mended_by(table: str, odd: Collection[str]) -> str:
    """What sets such properties right. No command guesses how columns are stored, or drops a constraint."""
    if MODE in odd:
        return SET_BY_OWNER
    by_owner = [name for name in odd if name.startswith(CONSTRAINT) or PARSED[name].mended is None]
    if by_owner:
        return f"set {', '.join(by_owner)} right, or remove it, by the engine that wrote it"
    return f"lakeward tables maintain {word(table)} --actions metadata   sets it to what Delta can read"


def _is_object(value: str) -> bool:
    try:
        return isinstance(json.loads(value), dict)
    except ValueError:
        return False


def _wrong(properties: Mapping[str, str]) -> list[str]:
    return [name for name, each in PARSED.items() if name in properties and not each.kind.fits(properties[name])]
