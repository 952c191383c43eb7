"""A sink of a user's own, for the exactly-once campaign: each batch's rows at the end of a file, a line each."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any


def keep(df: Any, batch: Any) -> None:
    """Append the rows to `<LAKEWARD_TEST_SINK>/<stream>.jsonl`."""
    lines = "".join(f"{row}\n" for row in df.toJSON().collect())
    with (Path(os.environ["LAKEWARD_TEST_SINK"]) / f"{batch.stream}.jsonl").open("a") as file:
        file.write(lines)
