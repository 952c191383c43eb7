"""What AWS Glue's catalog has and allows, asked without a change: for `doctor` and `config validate --deep`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final
from uuid import uuid4

from lakeward.connectors.iceberg.catalogs.answers import (
    ASKED,
    COMMITS,
    CREATES,
    NO_TABLE,
    Answer,
    error_words,
    namespaces,
)
from lakeward.connectors.iceberg.catalogs.refusals import Forbidden
from lakeward.platform.errors import LakewardError
from lakeward.platform.runtime import AWS_REGION, Lake
from lakeward.spec.sql.names import dotted

if TYPE_CHECKING:
    from pyiceberg.catalog.glue import GlueCatalog

    Names = tuple[str, ...]

SERVER_LOST: Final = "check the network between this machine and AWS, and ask again"
EXACT: Final = (
    "commits compare the version of a table; races were run against an imitation of Glue, not against AWS "
    "(streams rebuild is refused)"
)


def answers(lake: Lake) -> Iterator[Answer]:
    """Ask Glue. One that does not answer, or refuses the keys, is the only line."""
    from pyiceberg.catalog import load_catalog

    from lakeward.connectors.iceberg.catalog import pyiceberg_properties

    wanted = "it answers, and accepts the keys"
    try:
        catalog: Any = load_catalog(lake.name, **pyiceberg_properties(lake))
        spaces = catalog.list_namespaces()
    except LakewardError as error:
        yield Answer("catalog", False, error_words(error), wanted, error.next, severe=True)
        return
    keys = lake.store.connection if lake.store is not None else None
    who = f"as connection {keys}" if keys else "with this machine's identity"
    region = lake.properties.get(AWS_REGION)
    yield Answer("catalog", True, f"{catalog.glue.meta.endpoint_url} answers {who}, region {region}", wanted)
    tables, refused = _tables(catalog, spaces)
    yield namespaces(len(spaces), len(tables), refused)
    if not tables:
        yield Answer("catalog commit", True, NO_TABLE, COMMITS)
        yield Answer("catalog create", True, NO_TABLE, CREATES)
    else:
        yield _commit(catalog, tables[0])
        yield _create(catalog, tables[0])
    yield Answer("catalog exactness", True, EXACT, "a stale commit is refused")


def _tables(catalog: GlueCatalog, spaces: list[Names]) -> tuple[list[Names], list[str]]:
    """The tables of the first databases, and the databases that may not be listed."""
    from pyiceberg.exceptions import NoSuchNamespaceError

    tables: list[Names] = []
    refused: list[str] = []
    for space in sorted(spaces)[:ASKED]:
        try:
            tables += catalog.list_tables(space)
        except NoSuchNamespaceError:  # dropped since the listing
            continue
        except Forbidden:
            refused.append(dotted(space))
    return tables, refused


def _commit(catalog: GlueCatalog, table: Names) -> Answer:
    """The change of a table that does not exist: AWS looks at the privilege first."""
    space = dotted(table[:-1])
    next_ = (
        "grant glue:UpdateTable for the tables that streams land in and those that are maintained. A policy that names "
        "single tables refuses this trial, too"
    )
    given = {"Name": f"lakeward_trial_{uuid4().hex}"}
    return _trial(
        "catalog commit", space, COMMITS, next_, lambda: catalog.glue.update_table(DatabaseName=space, TableInput=given)
    )


def _create(catalog: GlueCatalog, table: Names) -> Answer:
    """The creation of a table under a name that exists."""
    space = dotted(table[:-1])
    next_ = "grant glue:CreateTable, or create the tables of streams, and their quarantine tables, by hand"
    given = {"Name": table[-1]}
    return _trial(
        "catalog create", space, CREATES, next_, lambda: catalog.glue.create_table(DatabaseName=space, TableInput=given)
    )


def _trial(name: str, space: str, wanted: str, next_: str, act: Any) -> Answer:
    """The answer of AWS to a request that contradicts what there is."""
    from botocore.exceptions import ClientError
    from pyiceberg.exceptions import CommitStateUnknownException

    try:
        act()
    except Forbidden as error:
        return Answer(name, False, f"{space}: {error_words(error)}", wanted, next_)
    except LakewardError as error:
        return Answer(name, False, f"{space}: {error_words(error)}", wanted, error.next)
    except CommitStateUnknownException as error:
        return Answer(name, False, f"{space}: no answer: {error_words(error)}", wanted, SERVER_LOST)
    except ClientError as error:
        code = error.response.get("Error", {}).get("Code", "")
        if code in ("EntityNotFoundException", "AlreadyExistsException"):
            return Answer(name, True, f"allowed in {space}", wanted)
        return Answer(name, True, f"not proven: {code} from {space}", wanted, "the first batch of a stream will tell")
    return Answer(name, True, f"not proven: no error from {space}", wanted, "the first batch of a stream will tell")
