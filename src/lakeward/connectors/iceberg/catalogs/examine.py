"""What a REST catalog has and allows, asked without changing anything: for `doctor` and `config validate --deep`."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final
from uuid import uuid4

from lakeward.platform.errors import DependencyDown, LakewardError
from lakeward.platform.runtime import CATALOG, Lake
from lakeward.platform.text import count as counted
from lakeward.spec.sql.names import dotted

if TYPE_CHECKING:
    from pyiceberg.catalog.rest import RestCatalog

    Names = tuple[str, ...]

ASKED: Final = 50
"""Namespaces whose tables are listed."""
SHOWN: Final = 5
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
NOT_LISTED: Final = (
    "grant the login to list them: until then no file of any table is deleted (expiry, orphans), because a table there "
    "may use it; everything else goes on"
)
NOT_BUILT: Final = "in a REST catalog tables restore and streams rebuild are refused"


@dataclass(frozen=True)
class Answer:
    """One line of what was found.

    Attributes:
        found, wanted: the actual and the required state, for display.
        next: what helps; if ok, it may be a remark.
        severe: whether nothing works without it.
    """

    name: str
    ok: bool
    found: str
    wanted: str
    next: str = ""
    severe: bool = False


def answers_of(lake: Lake) -> list[Answer]:
    """Ask the catalog. A catalog that does not answer, or refuses the login, is the only line."""
    from pyiceberg.catalog import load_catalog

    from lakeward.connectors.iceberg.catalog import pyiceberg_properties

    uri = lake.properties.get("uri", "")
    wanted = "it answers, and accepts the login"
    try:
        catalog: Any = load_catalog(CATALOG, **pyiceberg_properties(lake))
        spaces = catalog.list_namespaces()
    except LakewardError as error:
        found = f"{error.what}: {error.why}" if error.why else error.what
        # A connection that is not there is a matter of this machine, not of the catalog.
        return [Answer("catalog", False, found, wanted, error.next, severe=isinstance(error, DependencyDown))]
    except Exception as error:  # noqa: BLE001 - whatever an unknown server answers is the finding
        found = f"{uri}: {type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"
        return [Answer("catalog", False, found, wanted, "correct uri: or warehouse: of the catalog", severe=True)]
    with catalog:
        login = f"as connection {lake.login.connection}" if lake.login else "without a login"
        answers = [Answer("catalog", True, f"{uri} answers {login}", wanted), endpoints(_supported(catalog))]
        tables, refused = _tables(catalog, spaces)
        answers.append(namespaces(len(spaces), len(tables), refused))
        answers += _privileges(catalog, lake, spaces, tables)
    return answers


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


def namespaces(count: int, tables: int, refused: Collection[str]) -> Answer:
    """How much the login sees. Pure.

    Args:
        refused: the namespaces that it may not list.
    """
    asked = f"the first {ASKED} of {count}" if count > ASKED else str(count)
    found = f"{counted(tables, 'table')} in {asked} top-level namespaces"
    if refused:
        more = f" and {len(refused) - SHOWN} more" if len(refused) > SHOWN else ""
        found += f"; not allowed to list {', '.join(sorted(refused)[:SHOWN])}{more}"
    return Answer("catalog namespaces", not refused, found, "each namespace can be listed",
                  NOT_LISTED if refused else "")  # fmt: skip


def _supported(catalog: RestCatalog) -> set[str]:
    from pyiceberg.catalog.rest import Capability

    return {name for name in {**NEEDED, **USEFUL} if getattr(Capability, name) in catalog._supported_endpoints}


def _tables(catalog: RestCatalog, spaces: list[Names]) -> tuple[list[Names], list[str]]:
    """The tables of the first namespaces, and the namespaces that may not be listed."""
    from pyiceberg.exceptions import NoSuchNamespaceError, RESTError

    tables: list[Names] = []
    refused: list[str] = []
    for space in sorted(spaces)[:ASKED]:
        try:
            tables += catalog.list_tables(space)
        except NoSuchNamespaceError:  # dropped since the listing
            continue
        except (DependencyDown, RESTError) as error:
            what = error.what if isinstance(error, DependencyDown) else type(error).__name__
            refused.append(f"{dotted(space)} ({what})")
    return tables, refused


def _privileges(catalog: RestCatalog, lake: Lake, spaces: list[Names], tables: list[Names]) -> Iterator[Answer]:
    """Requests that change nothing, because the server must refuse them or forget them."""
    if not tables:
        yield Answer("catalog commit", True, "not tested: there is no table", "tables can be committed")
    else:
        yield _commit(catalog, tables[0])
        if lake.store is None or lake.store.connection is None:
            yield _vended(catalog, tables[0])
    if not spaces:
        yield Answer("catalog create", True, "not tested: there is no namespace", "tables can be created")
    else:
        yield _create(catalog, sorted(spaces)[0])


def _commit(catalog: RestCatalog, table: Names) -> Answer:
    """A commit that requires another table than there is: 409 proves the privilege."""
    requirement = {"type": "assert-table-uuid", "uuid": str(uuid4())}
    identifier = {"namespace": list(table[:-1]), "name": table[-1]}
    body: Any = {"identifier": identifier, "requirements": [requirement], "updates": []}
    url = catalog.url("namespaces/{namespace}/tables/{table}", **catalog._split_identifier_for_path(table))
    wanted = "tables can be committed, by the newest version only"
    try:
        status = catalog._session.post(url, json=body).status_code
    except DependencyDown as error:
        return Answer("catalog commit", False, f"{dotted(table)}: {error.what}: {error.why}", wanted, error.next,
                      severe=True)  # fmt: skip
    return commits(status, dotted(table))


def commits(status: int, table: str) -> Answer:
    """What follows from the answer to a commit that the server must refuse. Pure."""
    wanted = "tables can be committed, by the newest version only"
    if status == HTTPStatus.CONFLICT:
        return Answer("catalog commit", True, f"allowed in {table}", wanted)
    if status < HTTPStatus.BAD_REQUEST:
        found = f"{table}: the server took a commit whose requirement does not hold"
        return Answer("catalog commit", False, found, wanted,
                      "do not land in this catalog: of two writers one would lose its rows", severe=True)  # fmt: skip
    found = f"not proven: HTTP status {status} from {table}"
    known = status < HTTPStatus.INTERNAL_SERVER_ERROR
    return Answer("catalog commit", known, found, wanted, "the first batch of a stream will tell")


def _create(catalog: RestCatalog, space: Names) -> Answer:
    """A staged creation: the server checks the privilege and keeps nothing."""
    name = f"lakeward_doctor_{uuid4().hex[:12]}"
    field = {"id": 1, "name": "a", "required": False, "type": "string"}
    body: Any = {"name": name, "schema": {"type": "struct", "schema-id": 0, "fields": [field]}, "stage-create": True}
    wanted = "tables can be created"
    url = catalog.url("namespaces/{namespace}/tables", namespace=catalog._encode_namespace_path(space))
    try:
        status = catalog._session.post(url, json=body).status_code
    except DependencyDown as error:
        next_ = "grant it, or create the tables of streams, and their quarantine tables, by hand"
        return Answer("catalog create", False, f"{dotted(space)}: {error.what}: {error.why}", wanted, next_)
    known = status == HTTPStatus.OK
    found = f"allowed in {dotted(space)}" if known else f"{dotted(space)}: HTTP status {status}"
    return Answer("catalog create", known, found, wanted, "" if known else "read the log of the catalog's server")


def _vended(catalog: RestCatalog, table: Names) -> Answer:
    """Whether the server gives credentials for the files of a table."""
    url = catalog.url("namespaces/{namespace}/tables/{table}", **catalog._split_identifier_for_path(table))
    wanted = "the server vends credentials, or store: names some"
    try:
        body = catalog._session.get(url).json()
    except (DependencyDown, ValueError) as error:
        return Answer("catalog credentials", False, f"{dotted(table)}: {error}".splitlines()[0], wanted)
    config = body.get("config") or {}
    vended = bool(body.get("storage-credentials")) or any("access-key" in key or "sas-token" in key for key in config)
    alone = "none are vended: the machine's own identity reads and writes the files"
    found = "vended for each table" if vended else alone
    return Answer("catalog credentials", True, found, wanted)
