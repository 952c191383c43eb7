"""The OpenLineage client, as the user configured it: by OpenLineage's own file and environment variables.

| setting | what it is |
|---|---|
| `OPENLINEAGE_CONFIG` | path of an `openlineage.yml`; without it `openlineage.yml` here or in `~/.openlineage` |
| `OPENLINEAGE_URL`, `OPENLINEAGE_API_KEY`, `OPENLINEAGE_ENDPOINT` | an HTTP backend |
| `OPENLINEAGE__TRANSPORT__..` | any transport: `http`, `file`, `kafka`, `composite` |
| `OPENLINEAGE_NAMESPACE` | namespace of the jobs; default `lakeward` |
| `OPENLINEAGE_DISABLED=true` | no events |
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from lakeward.platform.errors import SpecError
from lakeward.telemetry.mask import mask

if TYPE_CHECKING:
    from openlineage.client import OpenLineageClient

DEFAULT_NAMESPACE = "lakeward"


def configured(environment: Mapping[str, str] | None = None) -> bool:
    """Whether there is a configuration. Without one nothing is sent, and the library is not imported."""
    variables = os.environ if environment is None else environment
    if variables.get("OPENLINEAGE_DISABLED", "").strip().lower() == "true":
        return False
    if variables.get("OPENLINEAGE_URL") or any(name.startswith("OPENLINEAGE__TRANSPORT__") for name in variables):
        return True
    return any(file.is_file() for file in _files(variables))


def namespace(environment: Mapping[str, str] | None = None) -> str:
    """The namespace of the jobs."""
    variables = os.environ if environment is None else environment
    return variables.get("OPENLINEAGE_NAMESPACE", "").strip() or DEFAULT_NAMESPACE


def require() -> None:
    """Check that OpenLineage's client is installed: the events are made of its classes.

    Raises:
        SpecError: it is not.
    """
    try:
        import openlineage.client  # noqa: F401  # asked for its presence
    except ImportError as error:
        raise SpecError(
            "The client of OpenLineage is not installed",
            why=str(error),
            next="uv pip install 'lakeward[lineage]'",
            code="LW-5801",
        ) from error


def client() -> OpenLineageClient:
    """The configured client.

    Raises:
        SpecError: the library is not installed, or its configuration is not valid.
    """
    require()
    from openlineage.client import OpenLineageClient

    try:
        made = OpenLineageClient()
        _ = made.transport
    except (ValueError, TypeError, KeyError, RuntimeError, ImportError) as error:
        raise SpecError(
            "The configuration of OpenLineage is not valid",
            why=mask(str(error)),
            next="correct openlineage.yml or the OPENLINEAGE variables: https://openlineage.io/docs/client/python",
            code="LW-5802",
        ) from error
    return made


def _files(variables: Mapping[str, str]) -> list[Path]:
    named = variables.get("OPENLINEAGE_CONFIG")
    if named:
        return [Path(named)]
    return [Path.cwd() / "openlineage.yml", Path.home() / ".openlineage" / "openlineage.yml"]
