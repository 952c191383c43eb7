"""Owners of the files of a file source, as its driver asks them before a landed file is deleted or archived."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Final

from lakeward.platform.errors import Unhealthy
from lakeward.platform.runtime import Project, Runtime
from lakeward.tables.context import UNREADABLE, MaintenanceContext
from lakeward.tables.guard.owners import Others, Owners

_MOST: Final = 1000


@dataclass(frozen=True)
class SourceFileOwners:
    """Asks every table of the deployment, by the same records as maintenance does: `Owners`."""

    runtime: Runtime

    def below(self, folder: str) -> Mapping[str, str]:
        """The files below a folder that tables name, and the folder itself if it is a table's -> a clause."""
        with self._others() as others:
            root = folder.rstrip("/")
            named = islice(others.named_below(folder), _MOST)
            found = {f"{root}/{path}": f"table {table} names it" for path, table in named}
            sharing = others.sharing(folder)
            return found | ({folder: sharing} if sharing else {})

    def of(self, paths: Collection[str]) -> Mapping[str, str]:
        """The files among `paths` that are a table's -> a clause that says it.

        Raises:
            Unhealthy: no table that could be read has them, and a table cannot be read.
            DependencyDown: the catalog does not answer.
        """
        if not paths:
            return {}
        with self._others() as others:
            found = {path: why for path in paths if (why := others.claim(path, ""))}
            if not found and others.unknown:
                raise Unhealthy(
                    "It is not known which tables name the landed files",
                    why=others.unknown,
                    next=UNREADABLE,
                    code="LW-3498",
                )
            return found

    @contextmanager
    def _others(self) -> Iterator[Others]:
        with Owners.of(MaintenanceContext(self.runtime, Project(Path()))) as owners:
            yield owners.others("")
