"""A catalog of another kind, by its properties alone: for an operator who writes `runtime.json`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from lakeward.platform.runtime import Lake


class Other:
    """The kind that `type` or `catalog-impl` in `Lake.properties` names."""

    def spark(self, lake: Lake) -> dict[str, str]:
        return {"warehouse": lake.warehouse}

    def pyiceberg(self, lake: Lake, pgpass: Path | None) -> dict[str, Any]:
        return {"warehouse": lake.warehouse}

    def libraries(self, lake: Lake) -> list[Path]:
        return []

    def reads_s3(self, lake: Lake) -> bool:
        return False

    def state(self, lake: Lake, pgpass: Path | None) -> str | None:
        return None

    def create_schema(self, lake: Lake, pgpass: Path | None) -> None:
        """Nothing: it is not the stack's."""
