"""What a REST catalog has and allows, asked without changing anything: for `doctor` and `config validate --deep`."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final
from uuid import uuid4

import requests

from lakeward.connectors.iceberg.catalogs import examine_glue
from lakeward.connectors.iceberg.catalogs.answers import (
    ASKED,
    COMMITS,
    CREATES,
    NO_TABLE,
    SERVER_LOG,
    SHOWN,
    Answer,
    error_words,
    namespaces,
)
from lakeward.connectors.iceberg.catalogs.refusals import Forbidden
from lakeward.platform.errors import DependencyDown, LakewardError
from lakeward.platform.runtime import Lake
from lakeward.spec.sql.names import dotted

if TYPE_CHECKING:
    from pyiceberg.catalog.rest import RestCatalog

    Names = tuple[str, ...]

NEEDED: Final[Mapping[str, str]] = {
    "V1_LIST_NAMESPACES": "no table is found",
    "V1_LIST_TABLES": "no table is found",
    "V1_LOAD_TABLE": "nothing lands, and no table is maintained or checked",
    "V1_UPDATE_TABLE": "nothing lands, and no table is maintained",
}
"""Endpoints that everything needs -> what is refused without it."""
USEFUL: Final[Mapping[str, str]] = {
    "V1_CREATE_NAMESPACE": "the namespaces of new tables must exist",
    "V1_CREATE_TABLE": "tables that streams land in must exist, and their quarantine tables",
    "V1_REGISTER_TABLE": "pointer_table: true fails",
    "V1_DELETE_TABLE": "pointer_table: true fails",
}
LISTS: Final = frozenset(("V1_LIST_NAMESPACES", "V1_LIST_TABLES"))
NOT_BUILT: Final = "in a REST catalog streams rebuild is refused"


def answers_of(lake: Lake) -> list[Answer]:
    """Ask the catalog. A catalog that does not answer, or refuses the login, is the only line."""
    from pyiceberg.catalog import load_catalog

    from lakeward.connectors.iceberg.catalog import pyiceberg_properties

    if lake.hive:
        return list(_of_hive(lake))
    if lake.glue:
        return list(examine_glue.answers(lake))
    uri = lake.properties.get("uri", "")
    wanted = "it answers, and accepts the login"
    try:
        catalog: Any = load_catalog(lake.name, **pyiceberg_properties(lake))
        supported = _supported(catalog)
        listed = supported >= LISTS
        spaces = catalog.list_namespaces() if listed else []
    except LakewardError as error:
        # A connection that is not there is a matter of this machine, not of the catalog.
        severe = isinstance(error, DependencyDown)
        return [Answer("catalog", False, error_words(error), wanted, error.next, severe=severe)]
    except Exception as error:  # noqa: BLE001 - whatever an unknown server answers is the finding
        found = f"{uri}: {error_words(error)}"
        next_ = "correct uri: or warehouse: of the catalog, or let the login list its namespaces"
        return [Answer("catalog", False, found, wanted, next_, severe=True)]
    with catalog:
        login = f"as connection {lake.login.connection}" if lake.login else "without a login"
        if lake.signed:
            keys = lake.store.connection if lake.store is not None else None
            region, service = (lake.properties[f"rest.signing-{key}"] for key in ("region", "name"))
            login = f"as {f'connection {keys}' if keys else 'this machine'}, signed for {service} in {region}"
        answers = [Answer("catalog", True, f"{uri} answers {login}", wanted), endpoints(supported)]
        if listed:  # without lists there is nothing else to ask about
            tables, refused, failed = _tables(catalog, spaces)
            answers.append(namespaces(len(spaces), len(tables), refused, failed))
            answers += _privileges(catalog, lake, supported, tables)
    return answers


def _of_hive(lake: Lake) -> Iterator[Answer]:
    """Whether a metastore answers, and its namespaces. Privileges cannot be asked for without a change."""
    from pyiceberg.catalog import load_catalog
    from thrift.Thrift import TException

    from lakeward.connectors.iceberg.catalog import pyiceberg_properties

    catalog: Any = load_catalog(lake.name, **pyiceberg_properties(lake))
    try:
        spaces = catalog.list_namespaces()
        tables = [name for space in sorted(spaces)[:ASKED] for name in catalog.list_tables(space)]
    except LakewardError as error:
        yield Answer("catalog", False, error_words(error), "it answers", error.next, severe=True)
        return
    except (TException, OSError) as error:
        next_ = f"correct uri: of the catalog, or {SERVER_LOG}"
        found = f"{lake.properties['uri']}: {error_words(error)}"
        yield Answer("catalog", False, found, "it answers", next_, severe=True)
        return
    yield Answer("catalog", True, f"{lake.properties['uri']} answers", "it answers")
    yield namespaces(len(spaces), len(tables), ())


def endpoints(supported: Collection[str]) -> Answer:
    """What follows from the endpoints that the server says it has. Pure.

    Args:
        supported: names of PyIceberg's `Capability`.
    """
    missing = {name: why for name, why in {**NEEDED, **USEFUL}.items() if name not in supported}
    severe = bool(set(missing) & set(NEEDED))
    spoken = {name: name.removeprefix("V1_").lower().replace("_", " ") for name in missing}
    words = "; ".join(f"no {spoken[name]}: {why}" for name, why in missing.items())
    wanted = "list, load, update and create tables and namespaces"
    found = words or "all that is used"
    return Answer("catalog endpoints", not missing, f"{found} ({NOT_BUILT})", wanted,
                  "use a server with these endpoints" if severe else "", severe=severe)  # fmt: skip


def _supported(catalog: RestCatalog) -> set[str]:
    from pyiceberg.catalog.rest import Capability

    return {name for name in {**NEEDED, **USEFUL} if getattr(Capability, name) in catalog._supported_endpoints}


def _tables(catalog: RestCatalog, spaces: list[Names]) -> tuple[list[Names], list[str], list[str]]:
    """The tables of the first namespaces, the namespaces that may not be listed, and those that were not."""
    from pyiceberg.exceptions import NoSuchNamespaceError, RESTError

    tables: list[Names] = []
    refused: list[str] = []
    failed: list[str] = []
    for space in sorted(spaces)[:ASKED]:
        try:
            tables += catalog.list_tables(space)
        except NoSuchNamespaceError:  # dropped since the listing
            continue
        except Forbidden:
            refused.append(dotted(space))
        except (LakewardError, RESTError, requests.RequestException, ValueError) as error:
            failed.append(f"{dotted(space)} ({error_words(error)})")
            if len(failed) == SHOWN:  # the server is down: each further request may wait for its timeout
                break
    return tables, refused, failed


def _privileges(catalog: RestCatalog, lake: Lake, supported: Collection[str], tables: list[Names]) -> Iterator[Answer]:
    """Requests that change nothing, because they contradict what there is. What is not supported is not tried."""
    if not tables:
        yield Answer("catalog commit", True, NO_TABLE, COMMITS)
        yield Answer("catalog create", True, NO_TABLE, CREATES)
        return
    if "V1_UPDATE_TABLE" in supported:
        yield _commit(catalog, tables[0])
    if not lake.signed and (lake.store is None or lake.store.connection is None):
        yield _vended(catalog, tables[0])
    if "V1_CREATE_TABLE" in supported:
        yield _create(catalog, tables[0])


def _commit(catalog: RestCatalog, table: Names) -> Answer:
    """A commit that requires another table than there is: 409 proves the privilege."""
    requirement = {"type": "assert-table-uuid", "uuid": str(uuid4())}
    identifier = {"namespace": list(table[:-1]), "name": table[-1]}
    body: Any = {"identifier": identifier, "requirements": [requirement], "updates": []}
    url = catalog.url("namespaces/{namespace}/tables/{table}", **catalog._split_identifier_for_path(table))
    try:
        status = catalog._session.post(url, json=body).status_code
    except Forbidden as error:
        next_ = "grant it for the tables that streams land in and those that are maintained; others need none"
        return Answer("catalog commit", False, f"{dotted(table)}: {error_words(error)}", COMMITS, next_)
    except (LakewardError, requests.RequestException) as error:
        return Answer("catalog commit", False, f"{dotted(table)}: {error_words(error)}", COMMITS, _next(error))
    return commits(status, dotted(table))


def commits(status: int, table: str) -> Answer:
    """What follows from the answer to a commit that the server must refuse. Pure."""
    if status == HTTPStatus.CONFLICT:
        return Answer("catalog commit", True, f"allowed in {table}", COMMITS)
    if status < HTTPStatus.BAD_REQUEST:
        found = f"{table}: the server took a commit whose requirement does not hold"
        return Answer("catalog commit", False, found, COMMITS,
                      "do not land in this catalog: of two writers one would lose its rows", severe=True)  # fmt: skip
    found = f"not proven: HTTP status {status} from {table}"
    known = status < HTTPStatus.INTERNAL_SERVER_ERROR
    return Answer("catalog commit", known, found, COMMITS, "the first batch of a stream will tell")


def _create(catalog: RestCatalog, table: Names) -> Answer:
    """A staged creation under the name of a table that exists: servers check the privilege first.

    Then they answer 409, or 200 with the table, and keep nothing. Under a new name some keep a staged file for ever.
    """
    space = table[:-1]
    field = {"id": 1, "name": "a", "required": False, "type": "string"}
    schema = {"type": "struct", "schema-id": 0, "fields": [field]}
    body: Any = {"name": table[-1], "schema": schema, "stage-create": True}
    url = catalog.url("namespaces/{namespace}/tables", namespace=catalog._encode_namespace_path(space))
    try:
        status = catalog._session.post(url, json=body).status_code
    except Forbidden as error:
        next_ = "grant it, or create the tables of streams, and their quarantine tables, by hand"
        return Answer("catalog create", False, f"{dotted(space)}: {error_words(error)}", CREATES, next_)
    except (LakewardError, requests.RequestException) as error:
        return Answer("catalog create", False, f"{dotted(space)}: {error_words(error)}", CREATES, _next(error))
    known = status in (HTTPStatus.OK, HTTPStatus.CONFLICT)
    found = f"allowed in {dotted(space)}" if known else f"{dotted(space)}: HTTP status {status}"
    return Answer("catalog create", known, found, CREATES, "" if known else SERVER_LOG)


def _vended(catalog: RestCatalog, table: Names) -> Answer:
    """Whether the server gives credentials for the files of a table."""
    name, wanted = "catalog credentials", "the server vends credentials, or store: names some"
    url = catalog.url("namespaces/{namespace}/tables/{table}", **catalog._split_identifier_for_path(table))
    try:
        answer = catalog._session.get(url)
        body = answer.json()
    except (LakewardError, requests.RequestException) as error:  # one of the latter is text that is not JSON
        return Answer(name, False, f"{dotted(table)}: {error_words(error)}", wanted, _next(error))
    if answer.status_code != HTTPStatus.OK or not isinstance(body, dict):  # dropped since, or not a catalog's answer
        return Answer(name, True, f"not tested: HTTP status {answer.status_code} from {dotted(table)}", wanted)
    config = body.get("config") or {}
    vended = bool(body.get("storage-credentials")) or any("access-key" in key or "sas-token" in key for key in config)
    alone = "none are vended: the machine's own identity reads and writes the files"
    return Answer(name, True, "vended for each table" if vended else alone, wanted)


def _next(error: Exception) -> str:
    return error.next if isinstance(error, LakewardError) else SERVER_LOG
