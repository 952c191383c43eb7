"""The resolved maintenance policy of one table: which actions are allowed, and when.

Every threshold has a default with a reason (`REASONS`) and, where a small value costs data or a running stream, a
floor (`FLOORS`). Only an entry under `unsafe:` in `conf/tables.yaml` may go below a floor.
"""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal, get_args

from pydantic import Field, Strict

from lakeward.spec.model.base import Bool, Int, PositiveInt, SpecModel
from lakeward.spec.model.table_layout import SortOrder
from lakeward.spec.model.types import Bytes, Duration, Size, Span

TableClass = Literal["append-stream", "upsert-stream", "append-batch", "static", "delta-stream", "foreign"]
Engine = Literal["connect", "submit"]
TABLE_CLASSES: Final[tuple[str, ...]] = get_args(TableClass)
Share = Annotated[float, Strict(), Field(gt=0, lt=1, allow_inf_nan=False)]
Ratio = Annotated[float, Strict(), Field(ge=1, le=1000, allow_inf_nan=False)]


class Compact(SpecModel):
    """When small files are compacted, and how much at once. A *fragment* is a file far below the target size."""

    enabled: Bool = True
    target_size: Bytes | None = None
    """Target file size; default: the table's own property, else by the size of the table (`target_for`)."""
    small_file_ratio: Share = 0.75
    fragment_ratio: Share = 0.125
    min_fragments: PositiveInt = 50
    fragment_bytes_ratio: Ratio = 1.3
    late_min_fragments: PositiveInt = 5
    late_after: Span = Duration("60m")
    cold_after: Span = Duration("60m")
    cold_min_files: PositiveInt = 4
    cooldown: Duration = Duration("30m")
    waive_cooldown_at: PositiveInt = 4
    look_back: Span = Duration("7d")
    max_group_size: Bytes = Size("10GB")
    max_size: Bytes = Size("50GB")
    max_files: PositiveInt = 10_000
    max_duration: Span = Duration("45m")
    sort_order: SortOrder | None = None
    """Sort order of a cold partition, which is rewritten as a whole, once. Delta tables: Z-order only."""
    max_commits: PositiveInt = 10
    max_failed_commits: Annotated[Int, Field(ge=0)] = 3

    def target_for(self, table_bytes: int, table_property: int | None = None) -> int:
        """The target file size in bytes for a table of `table_bytes`; the table's own property wins."""
        if self.target_size is not None:
            return self.target_size.bytes
        if table_property:
            return table_property
        if table_bytes < Size("64GB").bytes:
            return Size("128MB").bytes
        return Size("256MB").bytes if table_bytes < Size("1TB").bytes else Size("512MB").bytes


class Deletes(SpecModel):
    """When delete files are merged, and data files rewritten because of them (merge-on-read)."""

    min_delete_files: PositiveInt = 5
    """Delete files of one data file, and delete files in a partition beyond those that a merge would leave."""
    deleted_rows_ratio: Share = 0.1
    every: Duration = Duration("1h")


class Expire(SpecModel):
    """Which snapshots expire, and how often. Streams, readers and holds always keep the snapshots they need, and the
    table's own properties (`history.expire.*`, `delta.deletedFileRetentionDuration`) what they say."""

    enabled: Bool = True
    older_than: Span = Duration("24h")
    min_snapshots: PositiveInt = 50
    every: Duration = Duration("6h")
    outside_files: Literal["refuse", "keep", "delete"] = "refuse"
    """Files outside of the table's location (`add_files`) that no remaining snapshot names: `refuse` the expiry, `keep`
    them, or `delete` them unless another table of the catalog names them or has its location above them."""


class Manifests(SpecModel):
    """When manifests are rewritten."""

    enabled: Bool = True
    max_manifests: PositiveInt = 200
    min_files_per_manifest: PositiveInt = 10
    every: Duration = Duration("6h")


class Metadata(SpecModel):
    """When table properties are corrected: those that limit metadata files, and those for commit retries."""

    enabled: Bool = True
    previous_versions: PositiveInt = 50
    """Metadata files kept beside the current one; the table's own property wins."""
    log_files: PositiveInt = 10_000
    """Files in a Delta log from which its retention is set to `expire.older_than`, or 7 days."""


class Tags(SpecModel):
    """The daily tag of an Iceberg table (UTC), e.g. `lakeward-2026-03-01`, for time travel."""

    enabled: Bool = True
    keep: Span = Duration("7d")


class Orphans(SpecModel):
    """Which orphan files are removed. The first run, and the first after a change of thresholds, is a dry run."""

    enabled: Bool = True
    older_than: Span = Duration("7d")
    every: Span = Duration("7d")
    max_share: Share = 0.1
    """Share of the bytes below the table's location; one run never removes more."""
    max_files: PositiveInt = 100_000
    quarantine: Bool = True
    """Move files to a trash folder below the location and delete them after `keep`; `false` deletes at once."""
    keep: Span = Duration("7d")


class Pressure(SpecModel):
    """Back-pressure: when streams that commit faster than compaction are slowed down.

    Counted are the commits since the last successful rewrite, while a rewrite is due. `lengthen` and `hold` affect
    streams and are off unless a number is given.
    """

    warn: PositiveInt = 500
    lengthen: PositiveInt | None = None
    """From this number on its streams commit half as often."""
    hold: PositiveInt | None = None
    """From this number on its streams pause until the rewrite is done."""


class Policy(SpecModel):
    """All thresholds of one table."""

    class_: TableClass = Field(default="append-stream", alias="class")
    observe: Span = Duration("5m")
    maintain: Bool = True
    """Whether maintenance changes the table. If not, it is observed, and its plan says what would be done and why."""
    engine: Engine = "connect"
    """`connect`: the warm Spark Connect server; `submit`: a Spark application of its own, for heavy tables: the driver
    `maintenance` of `conf/lakeward.yaml`."""
    compact: Compact = Compact()
    deletes: Deletes = Deletes()
    expire: Expire = Expire()
    manifests: Manifests = Manifests()
    metadata: Metadata = Metadata()
    tags: Tags = Tags()
    orphans: Orphans = Orphans()
    pressure: Pressure = Pressure()


CLASS_DEFAULTS: Final[dict[str, dict[str, Any]]] = {
    "append-stream": {},
    "upsert-stream": {"compact": {"cooldown": "4h"}, "expire": {"older_than": "3d"}},
    "append-batch": {
        "compact": {"late_after": "1d", "cooldown": "1d"},
        "expire": {"older_than": "5d", "min_snapshots": 10, "every": "1d"},
    },
    "static": {
        "observe": "7d",
        "compact": {"cooldown": "7d"},
        "expire": {"older_than": "30d", "min_snapshots": 5, "every": "7d"},
    },
    "delta-stream": {"expire": {"older_than": "7d", "every": "7d"}},
    "foreign": {
        "maintain": False,
        "compact": {"late_after": "1d", "cooldown": "1d"},
        "expire": {"older_than": "5d", "min_snapshots": 10, "every": "1d"},
    },
}
"""What each class changes in the defaults of an append stream."""

UNSET: Final = ("compact.target_size", "compact.sort_order", "pressure.lengthen", "pressure.hold")
"""Thresholds without a default; the reason says what applies instead."""

REASONS: Final[dict[str, str]] = {
    "class": "derived from the streams that write the table",
    "observe": "metadata only, tens of milliseconds a table",
    "maintain": "small files and old snapshots cost more than their removal; a table that others write in a catalog of "
    "theirs is changed only when an entry says so",
    "engine": "a warm server starts in no time; submit isolates a heavy table",
    "compact.enabled": "small files are what streaming costs",
    "compact.target_size": "the table's property, else 128MB below 64GB, 256MB below 1TB, 512MB above",
    "compact.small_file_ratio": "below three quarters of the target a file is worth rewriting once (Iceberg's ratio)",
    "compact.fragment_ratio": "below an eighth of the target; an output is never selected again",
    "compact.min_fragments": "12 would fire every 3 minutes at 4 files a commit; 50 keeps write amplification near 2",
    "compact.fragment_bytes_ratio": "enough bytes to make more than one good file",
    "compact.late_min_fragments": "with late_after: a quiet table converges too",
    "compact.late_after": "with late_min_fragments: a quiet table converges too",
    "compact.cold_after": "no write for this long: the partition gets its final layout",
    "compact.cold_min_files": "more small files than this are worth the one final pass",
    "compact.cooldown": "bounds write amplification per partition",
    "compact.waive_cooldown_at": "times min_fragments: then waiting costs readers more than rewriting",
    "compact.look_back": "older partitions were finished when they went cold",
    "compact.max_group_size": "a conflict loses one group of this size, not the run",
    "compact.max_size": "one run leaves room for the streams",
    "compact.max_files": "keeps a run's plan in memory",
    "compact.max_duration": "a run ends before the next is due",
    "compact.sort_order": "rewrites every byte of a partition once more; off unless an order is configured",
    "compact.max_commits": "partial progress: what is done stays done",
    "compact.max_failed_commits": "beyond this the table is too busy: try when it is cold",
    "deletes.min_delete_files": "every read of the file opens each of them",
    "deletes.deleted_rows_ratio": "Iceberg's default of 0.3 is late for streams",
    "deletes.every": "each merge is a commit that streams have to pass",
    "expire.enabled": "1,440 commits a day grow the metadata without end",
    "expire.older_than": "a day of time travel; longer history belongs to tags",
    "expire.min_snapshots": "a burst of commits keeps a usable history",
    "expire.every": "four times a day is enough to stay flat",
    "expire.outside_files": "such a file may be another's; tables of catalogs elsewhere cannot be read: "
    "gc.enabled=false protects a table whose files they use",
    "manifests.enabled": "a fast append writes a manifest a batch",
    "manifests.max_manifests": "planning opens every one of them",
    "manifests.min_files_per_manifest": "fewer means planning reads mostly headers",
    "manifests.every": "after compaction, before expiry",
    "metadata.enabled": "1,440 commits a day leave 1,440 metadata files, and none is deleted by default",
    "metadata.previous_versions": "snapshots keep the history, not these files",
    "metadata.log_files": "a log of so many files is slow to list; Delta itself keeps 30 days of it",
    "tags.enabled": "a tag per day costs less than keeping every snapshot of a week",
    "tags.keep": "what went wrong in a week can be looked at as it was",
    "orphans.enabled": "failed commits leave files behind",
    "orphans.older_than": "four more days of storage are cheap, a wrong delete is final",
    "orphans.every": "listing a whole table is the dearest thing maintenance does",
    "orphans.max_share": "so many orphans are more likely a mistake in the listing",
    "orphans.max_files": "the same, for many small files",
    "orphans.quarantine": "a wrong delete is final, a wrong move is moved back",
    "orphans.keep": "a week in which a reader that misses a file is heard",
    "pressure.warn": "a person should check before readers notice",
    "pressure.lengthen": "streams are not slowed down by default; 750 halves the commits before planning suffers",
    "pressure.hold": "streams are not paused by default; 1000 is the limit of other systems",
}
"""Path of a threshold -> why its default is what it is."""

FLOORS: Final[dict[str, tuple[Any, str]]] = {
    "observe": (Duration("1m"), "observing more often competes with the streams for the catalog"),
    "compact.target_size": (Size("16MB"), "smaller outputs are small files again"),
    "compact.min_fragments": (10, "fewer rewrites nearly every batch"),
    "compact.late_min_fragments": (2, "one file cannot be compacted"),
    "compact.late_after": (Duration("10m"), "shorter fires on every quiet minute"),
    "compact.cold_after": (Duration("10m"), "shorter calls a pausing stream finished"),
    "compact.cooldown": (Duration("5m"), "shorter rewrites the same bytes again and again"),
    "compact.max_group_size": (Size("1GB"), "a group has to make several files of the target size"),
    "compact.max_size": (Size("1GB"), "a run has to hold one group at least"),
    "compact.max_duration": (Duration("5m"), "a group of the target size has to end in it"),
    "expire.older_than": (Duration("6h"), "a rewrite or a batch that takes longer would lose its base"),
    "expire.min_snapshots": (5, "readers and rollbacks need a history"),
    "deletes.every": (Duration("10m"), "each merge is a commit that streams have to pass"),
    "expire.every": (Duration("30m"), "each expiry is a commit that streams have to pass"),
    "manifests.max_manifests": (20, "fewer rewrites manifests nearly every batch"),
    "manifests.every": (Duration("30m"), "each rewrite is a commit that streams have to pass"),
    "metadata.previous_versions": (10, "a reader that holds a metadata file by its path loses it within minutes"),
    "metadata.log_files": (100, "a log is cleaned with a checkpoint, and one is written every ten commits"),
    "tags.keep": (Duration("1d"), "the next run would come after it expired"),
    "orphans.older_than": (Duration("3d"), "a file being written is not referenced yet: it would be deleted"),
    "orphans.every": (Duration("1d"), "listing a whole table is dear"),
    "orphans.keep": (Duration("1d"), "a missing file is not noticed within hours"),
    "pressure.lengthen": (100, "a stream would be slow between any two rewrites"),
    "pressure.hold": (200, "a stream would pause between any two rewrites"),
}
"""Path of a threshold -> the smallest value outside `unsafe:`, and the cost of a smaller one."""
