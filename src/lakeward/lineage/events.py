"""Parts of an OpenLineage event that all of Lakeward's events share. Pure."""

from __future__ import annotations

import json
import uuid
from collections.abc import Mapping, Sequence
from datetime import datetime

from openlineage.client import facet_v2
from openlineage.client.event_v2 import InputDataset, Job, OutputDataset, Run, RunEvent, RunState

from lakeward.lineage.datasets import Dataset
from lakeward.lineage.facets import PRODUCER

_IDS = uuid.uuid5(uuid.NAMESPACE_URL, "urn:lakeward:run")


def run_id(namespace: str, *parts: object) -> str:
    """The id of a run: the same whenever it is computed, so that an event sent twice is the same event."""
    return str(uuid.uuid5(_IDS, json.dumps([namespace, *map(str, parts)])))


def make(
    at: datetime,
    run: str,
    job: Job,
    state: RunState,
    *,
    read: Sequence[InputDataset] = (),
    written: Sequence[OutputDataset] = (),
    facets: Mapping[str, facet_v2.RunFacet] | None = None,
    failure: str = "",
) -> RunEvent:
    """One event of a run.

    Args:
        failure: why the run failed, for the state FAIL.
    """
    of_run = dict(facets or {})
    if state is RunState.FAIL:
        of_run["errorMessage"] = facet_v2.error_message_run.ErrorMessageRunFacet(failure, "SQL")
    return RunEvent(
        eventTime=at.isoformat(),
        run=Run(run, of_run),
        job=job,
        eventType=state,
        inputs=list(read),
        outputs=list(written),
        producer=PRODUCER,
    )


def table_facets(item: Dataset, snapshot: int | None = None) -> dict[str, facet_v2.DatasetFacet]:
    """Name in the catalog, format and version of a table; empty for what is no table of the lake."""
    facets: dict[str, facet_v2.DatasetFacet] = {}
    if item.table is not None and item.catalog is not None and item.format is not None:
        symlinks = facet_v2.symlinks_dataset
        facets["symlinks"] = symlinks.SymlinksDatasetFacet([symlinks.Identifier(item.catalog, item.table, "TABLE")])
        facets["storage"] = facet_v2.storage_dataset.StorageDatasetFacet(item.format, "parquet")
    if snapshot is not None:
        facets["version"] = facet_v2.dataset_version_dataset.DatasetVersionDatasetFacet(str(snapshot))
    return facets


def of_input(
    item: Dataset,
    facets: Mapping[str, facet_v2.DatasetFacet],
    own: Mapping[str, facet_v2.InputDatasetFacet] | None = None,
) -> InputDataset:
    """A dataset that a run reads."""
    return InputDataset(namespace=item.namespace, name=item.name, facets=dict(facets), inputFacets=dict(own or {}))


def of_output(
    item: Dataset,
    facets: Mapping[str, facet_v2.DatasetFacet],
    own: Mapping[str, facet_v2.OutputDatasetFacet] | None = None,
) -> OutputDataset:
    """A dataset that a run writes."""
    return OutputDataset(namespace=item.namespace, name=item.name, facets=dict(facets), outputFacets=dict(own or {}))
