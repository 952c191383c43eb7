"""The reader that a reference of a spec names."""

from __future__ import annotations

from lakeward.connectors.reference.base import Reader
from lakeward.connectors.reference.files import FilesReference
from lakeward.connectors.reference.tables import DeltaReference, IcebergReference
from lakeward.errors import SpecError
from lakeward.runtime import Lake
from lakeward.spec.sources import Reference


def reader_of(name: str, reference: Reference, lake: Lake) -> Reader:
    """The reader of a reference.

    Raises:
        SpecError: its kind is not built yet.
    """
    if reference.iceberg is not None:
        return IcebergReference(name, str(reference.iceberg))
    if reference.delta is not None:
        return DeltaReference(name, str(reference.delta), lake)
    if reference.jdbc is not None:
        raise SpecError(
            f"Reference {name} cannot be read yet",
            why="references of kind jdbc are not implemented",
            next="use csv, parquet, iceberg or delta",
        )
    return FilesReference(name, reference)
