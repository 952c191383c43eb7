"""Lakeward's own facets of OpenLineage events. Their JSON Schemas are in docs/reference/openlineage."""

from __future__ import annotations

from attrs import define
from openlineage.client.facet_v2 import InputDatasetFacet, JobFacet, RunFacet

from lakeward import __version__

PRODUCER = f"urn:lakeward:{__version__}"
_SCHEMAS = "urn:lakeward:openlineage:1-0-0"


@define
class OffsetsFacet(InputDatasetFacet):
    """The range of a source that the batches of an event consumed.

    Attributes:
        start, end: position in the form of the source's connector; for a Kafka topic partition -> next offset. A
            start that is not known is left out.
    """

    start: object
    end: object

    @staticmethod
    def _get_schema() -> str:
        return f"{_SCHEMAS}:OffsetsInputDatasetFacet#/$defs/OffsetsInputDatasetFacet"


@define
class BatchesFacet(RunFacet):
    """The batches that an event covers. A sink without a position has no `fromSeq` and `toSeq`."""

    queryId: str  # noqa: N815  # OpenLineage's style of names
    batches: int
    fromSeq: int | None  # noqa: N815  # OpenLineage's style of names
    toSeq: int | None  # noqa: N815  # OpenLineage's style of names

    @staticmethod
    def _get_schema() -> str:
        return f"{_SCHEMAS}:BatchesRunFacet#/$defs/BatchesRunFacet"


@define
class GenerationFacet(JobFacet):
    """The generation of the stream's spec that a run works with."""

    generation: int
    author: str
    digest: str
    deployedAt: str  # noqa: N815  # OpenLineage's style of names

    @staticmethod
    def _get_schema() -> str:
        return f"{_SCHEMAS}:GenerationJobFacet#/$defs/GenerationJobFacet"
