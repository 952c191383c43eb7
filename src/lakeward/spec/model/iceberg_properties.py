"""Properties of an Iceberg table whose values Iceberg or PyIceberg parses: which values they cannot read. Pure.

Iceberg takes any text when a property is set, and parses it when it is needed: with `commit.retry.num-retries=x` every
later commit fails, also the one that would set it right (`For input string: "x"`). So Spark's SQL cannot mend such a
table; a commit to the catalog that reads no property can (`rename.amend`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Final

from lakeward.platform.errors import Refused
from lakeward.platform.text import word

NUMBERS: Final[Mapping[str, str]] = {
    "commit.retry.num-retries": "4",
    "commit.retry.min-wait-ms": "100",
    "commit.retry.max-wait-ms": "60000",
    "commit.retry.total-timeout-ms": "1800000",
    "commit.status-check.num-retries": "3",
    "commit.status-check.min-wait-ms": "1000",
    "commit.status-check.max-wait-ms": "60000",
    "commit.status-check.total-timeout-ms": "1800000",
    "commit.manifest.target-size-bytes": "8388608",
    "commit.manifest.min-count-to-merge": "100",
    "write.target-file-size-bytes": "536870912",
    "write.delete.target-file-size-bytes": "67108864",
    "write.metadata.previous-versions-max": "100",
    "write.metadata.metrics.max-inferred-column-defaults": "100",
    "write.parquet.row-group-size-bytes": "134217728",
    "write.parquet.page-size-bytes": "1048576",
    "write.parquet.page-row-limit": "20000",
    "write.parquet.dict-size-bytes": "2097152",
    "write.parquet.bloom-filter-max-bytes": "1048576",
    "write.parquet.row-group-check-min-record-count": "100",
    "write.parquet.row-group-check-max-record-count": "10000",
    "write.summary.partition-limit": "0",
    "read.split.target-size": "134217728",
    "read.split.metadata-target-size": "33554432",
    "read.split.planning-lookback": "10",
    "read.split.open-file-cost": "4194304",
    "read.parquet.vectorization.batch-size": "5000",
    "history.expire.max-ref-age-ms": "9223372036854775807",
}
"""A property of a whole number -> Iceberg's default. Those that say how much history is kept are not here:
`tables.plan.expire` refuses to expire, and only the owner may set them."""
SWITCHES: Final = (
    "commit.manifest-merge.enabled",
    "write.metadata.delete-after-commit.enabled",
    "write.object-storage.enabled",
    "write.object-storage.partitioned-paths",
)
"""Properties that are true or false. Iceberg takes other text for false; PyIceberg refuses it."""
WORDS: Final[Mapping[str, tuple[str, ...]]] = {
    **dict.fromkeys(("write.format.default", "write.delete.format.default"), ("parquet", "avro", "orc")),
    "write.parquet.compression-codec": (
        "zstd", "uncompressed", "snappy", "gzip", "lzo", "brotli", "lz4", "lz4_raw",
    ),
    "write.parquet.page-version": ("v1", "v2"),
    "write.manifest.compression-codec": ("gzip", "uncompressed", "snappy", "zstd"),
    "write.metadata.compression-codec": ("none", "gzip"),
    "write.distribution-mode": ("hash", "none", "range"),
    **{f"write.{act}.distribution-mode": ("hash", "none", "range") for act in ("delete", "update", "merge")},
    **{f"write.{act}.mode": ("copy-on-write", "merge-on-read") for act in ("delete", "update", "merge")},
    **{f"write.{act}.isolation-level": ("serializable", "snapshot") for act in ("delete", "update", "merge")},
}  # fmt: skip
"""A property of a word -> those that Iceberg knows, its default first."""
PLACES: Final[Mapping[str, str]] = {"write.data.path": "data", "write.metadata.path": "metadata"}
"""Where files are written -> the folder below the table's location that is Iceberg's default. Iceberg takes a relative
path for one below the folder of the process, and writes there."""
PLACED_BY: Final = ("write.location-provider.impl", "write.object-storage.path", "write.folder-storage.path")
"""Properties by which Iceberg may fail to make what says where files go: a class, and two that it reads no more."""
LEVELS: Final[Mapping[str, Mapping[str, tuple[str, ...] | range]]] = {
    "parquet": {
        "zstd": range(-(2**31), 2**31),
        "gzip": (
            "DEFAULT_COMPRESSION", "NO_COMPRESSION", "BEST_SPEED", "TWO", "THREE", "FOUR", "FIVE", "SIX", "SEVEN",
            "EIGHT", "BEST_COMPRESSION",
        ),
    },
    "avro": {"gzip": range(-1, 10), "zstd": range(-(2**31), 2**31)},
}  # fmt: skip
"""Format -> codec -> the values of `write.<format>.compression-level`. Other codecs do not read it."""
_FORMAT: Final = "write.format.default"
_CODECS: Final = {"parquet": "zstd", "avro": "gzip"}
_LEVELS: Final = {"zstd": "3", "gzip": "9"}  # Iceberg's, of Parquet and Avro
_ABSOLUTE: Final = re.compile(r"(?:/|[A-Za-z][A-Za-z0-9+.-]*:/).*", re.DOTALL)
_CASE_COUNTS: Final = "write.parquet.page-version"
OF_MERGES: Final = tuple(name for name in WORDS if name.startswith("write.merge."))
_OF_FILES: Final = (*PLACES, *(f"write.{kind}.compression-level" for kind in LEVELS))
PARSED: Final = (*NUMBERS, *WORDS, *_OF_FILES, *(f"write.{kind}.compression-codec" for kind in _CODECS))
"""Those that an append may read."""
_INTS: Final = frozenset({
    "commit.retry.num-retries", "commit.retry.min-wait-ms", "commit.retry.max-wait-ms",
    "commit.retry.total-timeout-ms", "commit.status-check.num-retries", "commit.manifest.min-count-to-merge",
    "write.metadata.previous-versions-max", "write.metadata.metrics.max-inferred-column-defaults",
    "write.parquet.page-size-bytes", "write.parquet.page-row-limit", "write.parquet.dict-size-bytes",
    "write.parquet.bloom-filter-max-bytes", "write.parquet.row-group-check-min-record-count",
    "write.parquet.row-group-check-max-record-count", "write.summary.partition-limit", "read.split.planning-lookback",
    "read.parquet.vectorization.batch-size",
})  # fmt: skip
"""Numbers that Iceberg reads into 32 bits; the others have 64."""
_POSITIVE: Final = frozenset({
    "write.parquet.row-group-size-bytes", "write.parquet.page-size-bytes", "write.parquet.page-row-limit",
    "write.parquet.dict-size-bytes", "write.parquet.bloom-filter-max-bytes",
    "write.parquet.row-group-check-min-record-count", "write.parquet.row-group-check-max-record-count",
})  # fmt: skip
"""Numbers with which no Parquet file can be written unless they are 1 or more."""
_OF_ROW_CHANGES: Final = ("write.delete.", "write.update.", "write.merge.")
_OF_MERGED_MANIFESTS: Final = "read.split.planning-lookback"
"""Read by a commit too: it says how manifests are put together."""
_TAKEN_FOR: Final = "false"
_OF_COMMITS: Final = ("commit.", "write.")
_BOTH: Final = frozenset(["y", "yes", "t", "true", "on", "1", "n", "no", "f", "false", "off", "0"])
_NUMBER: Final = re.compile(r"[+-]?[0-9]{1,40}")


def unreadable(properties: Mapping[str, str], location: str = "") -> dict[str, str]:
    """Each property that cannot be read -> Iceberg's default for a number or a word, what it reads for a switch.

    Args:
        location: the table's, below which a path that cannot be read is set to Iceberg's default.
    """
    return (
        _plain(properties)
        | _levels(properties)
        | {
            **{
                name: f"{location.rstrip('/')}/{folder}"
                for name, folder in PLACES.items()
                if _wrong(properties.get(name), _absolute)
            },
            **{name: NUMBERS[name] for name in NUMBERS if _beyond(name, properties.get(name))},
            **{name: known[0] for name, known in WORDS.items() if not _known(name, properties.get(name, known[0]))},
        }
    )


def _levels(properties: Mapping[str, str]) -> dict[str, str]:
    """The level of compression of the files that are written, if the codec cannot read it -> the codec's default."""
    kind = properties.get(_FORMAT, "parquet").lower()
    name, codec = f"write.{kind}.compression-level", _codec(properties, kind)
    value, valid = properties.get(name), LEVELS.get(kind, {}).get(codec)
    if value is None or valid is None:
        return {}
    if isinstance(valid, range):
        fits = _number(value.strip()) and int(value) in valid
        return {} if fits else {name: _LEVELS[codec]}
    return {} if value in valid else {name: valid[0]}


def _codec(properties: Mapping[str, str], kind: str) -> str:
    return properties.get(f"write.{kind}.compression-codec", _CODECS.get(kind, "")).lower()


def _absolute(value: str) -> bool:
    return _ABSOLUTE.fullmatch(value) is not None


def _known(name: str, value: str) -> bool:
    return (value if name == _CASE_COUNTS else value.lower()) in WORDS[name]


def _plain(properties: Mapping[str, str]) -> dict[str, str]:
    """Those that PyIceberg cannot read either."""
    wrong = {name: default for name, default in NUMBERS.items() if _wrong(properties.get(name), _number)}
    return wrong | {name: _TAKEN_FOR for name in SWITCHES if _wrong(properties.get(name), _switch)}


def _beyond(name: str, value: str | None) -> bool:
    """Whether a whole number is larger than Iceberg reads, or smaller than it can use."""
    bits = 31 if name in _INTS else 63
    least = 1 if name in _POSITIVE else -(2**bits)
    return value is not None and _number(value) and not least <= int(value) < 2**bits


def stop_commits(properties: Mapping[str, str]) -> str:
    """What is wrong with those by which every append fails; empty if nothing is. One that is read at a scan or by a
    MERGE, or a switch, stops no append of Iceberg."""
    found = unreadable({name: properties[name] for name in PARSED if name in properties})
    return words(properties, [name for name in found if _of_appends(name)])


def stop_merges(properties: Mapping[str, str]) -> str:
    """What is wrong with those by which a MERGE fails, but no append; empty if nothing is."""
    found = unreadable({name: properties[name] for name in OF_MERGES if name in properties})
    return words(properties, found)


def _of_appends(name: str) -> bool:
    if name in WORDS:
        return name == "write.delete.format.default" or not name.startswith(_OF_ROW_CHANGES)
    return name == _OF_MERGED_MANIFESTS or name.startswith(_OF_COMMITS)


def words(properties: Mapping[str, str], wrong: Iterable[str]) -> str:
    """What is wrong with these properties: `commit.retry.num-retries is 'x', which is no whole number`."""
    return "; ".join(f"{name} is {properties[name]!r}, which is {_valid(name, properties)}" for name in wrong)


def check(table: str, properties: Mapping[str, str], what: str) -> None:
    """Refuse a commit by PyIceberg to a table whose properties cannot be read. It takes an empty one for none.

    Args:
        what: what is not possible, e.g. `restore`.

    Raises:
        Refused: a property cannot be read; nothing was changed.
    """
    wrong = _plain({name: value for name, value in properties.items() if value})
    if wrong:
        raise Refused(
            f"Cannot {what} {table}: Iceberg cannot read a property of the table",
            why=words(properties, wrong),
            next=mended_by(table),
            code="LW-3488",
        )


def mended_by(table: str) -> str:
    """The command that sets such properties right."""
    return f"lakeward tables maintain {word(table)} --actions metadata   sets it to what Iceberg can read"


def _wrong(value: str | None, fits: Callable[[str], bool]) -> bool:
    return value is not None and not fits(value)


def _number(value: str) -> bool:
    return _NUMBER.fullmatch(value) is not None


def _switch(value: str) -> bool:
    return value.lower() in _BOTH


def _valid(name: str, properties: Mapping[str, str]) -> str:
    value = properties[name]
    if name in PLACES:
        return "no absolute path or URL"
    if name.endswith(".compression-level"):
        kind = name.split(".")[1]
        valid = LEVELS[kind].get(_codec(properties, kind), ())
        return "no whole number that its codec reads" if isinstance(valid, range) else f"none of {', '.join(valid)}"
    if name in WORDS:
        return f"none of {', '.join(WORDS[name])}"
    if name not in NUMBERS:
        return "neither true nor false"
    most = 2**31 - 1 if name in _INTS else 2**63 - 1
    if not _beyond(name, value):
        return "no whole number"
    return f"no whole number {'from 1 ' if name in _POSITIVE else ''}up to {most:,}"
