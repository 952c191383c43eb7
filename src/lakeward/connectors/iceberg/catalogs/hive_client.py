"""PyIceberg's client of a Hive Metastore: every request ends, and a commit compares the metadata that it replaces."""

from __future__ import annotations

import threading
from contextlib import suppress
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final

from hive_metastore.ThriftHiveMetastore import Client
from hive_metastore.ttypes import EnvironmentContext, MetaException, UnlockRequest
from pyiceberg.catalog.hive import HiveCatalog, _HiveClient
from pyiceberg.exceptions import CommitFailedException, CommitStateUnknownException, WaitingForLockException
from thrift.protocol.TBinaryProtocol import TBinaryProtocol
from thrift.Thrift import TException
from thrift.transport.TSocket import TSocket
from thrift.transport.TTransport import TBufferedTransport, TTransportException

from lakeward.connectors.iceberg.document_updates import not_written
from lakeward.platform.errors import DependencyDown
from lakeward.spec.sql.names import dotted

if TYPE_CHECKING:
    from pyiceberg.table import CommitTableResponse, Table
    from pyiceberg.table.update import TableRequirement, TableUpdate

ANSWER_S: Final = 60.0
"""How long a request waits for a connection, and for its answer."""
_LOCATION, _PREVIOUS = "metadata_location", "previous_metadata_location"
_MODIFIED = "The table has been modified"  # the metastore's words where the comparison fails


class _Comparing(Client):  # type: ignore[misc]  # generated code without types
    """Alters a table only if its metadata is still that which was read.

    The lock of a writer that stood still longer than the metastore waits for it (`hive.txn.timeout`) has ended: then
    only the comparison keeps the writer from replacing the commits of others. The metastore compares in its database
    from Hive 2.3.10 and 4.0 on (HIVE-26882); an older one ignores the request to.
    """

    def alter_table_with_environment_context(
        self, dbname: str, tbl_name: str, new_tbl: Any, environment_context: EnvironmentContext
    ) -> None:
        replaced = new_tbl.parameters.get(_PREVIOUS)
        if replaced is None or new_tbl.parameters.get(_LOCATION) == replaced or new_tbl.tableName != tbl_name:
            super().alter_table_with_environment_context(dbname, tbl_name, new_tbl, environment_context)
            return
        compared = {"expected_parameter_key": _LOCATION, "expected_parameter_value": replaced}
        context = EnvironmentContext(properties={**environment_context.properties, **compared})
        try:
            super().alter_table_with_environment_context(dbname, tbl_name, new_tbl, context)
        except MetaException as error:
            if _MODIFIED in str(error.message):
                raise CommitFailedException(f"{dbname}.{tbl_name} has been updated by another process") from error
            raise CommitStateUnknownException(f"{dbname}.{tbl_name}: {error.message}") from error
        except (TTransportException, OSError) as error:
            raise CommitStateUnknownException(f"{dbname}.{tbl_name}: {_words(error)}") from error

    def unlock(self, rqst: UnlockRequest) -> None:
        # The lock ends by itself; the commit is done, or has an error of its own.
        with suppress(TException, OSError):
            super().unlock(rqst)


class _Ending(_HiveClient):
    """Connections whose requests end. Each `with` has one of its own: threads share a catalog."""

    def __init__(self, uri: str, ugi: str | None) -> None:
        super().__init__(uri, ugi)
        self._address = uri.removeprefix("thrift://").rstrip("/")
        self._held = threading.local()

    def __enter__(self) -> Client:
        host, _, port = self._address.rpartition(":")
        socket = TSocket(host, int(port))
        socket.setTimeout(ANSWER_S * 1000)
        transport = TBufferedTransport(socket)
        try:
            transport.open()
        except (TTransportException, OSError) as error:
            raise down(self._address, error) from None
        self._held.open = [*getattr(self._held, "open", []), transport]
        client = _Comparing(TBinaryProtocol(transport))
        if self._ugi:
            client.set_ugi(*self._ugi)
        return client

    def __exit__(
        self, exctype: type[BaseException] | None, excinst: BaseException | None, exctb: TracebackType | None
    ) -> None:
        self._held.open.pop().close()
        if isinstance(excinst, TTransportException | TimeoutError | ConnectionError):
            raise down(self._address, excinst) from None


class HiveClient(HiveCatalog):
    """A Hive catalog that raises `DependencyDown` if the metastore does not answer, or a table's lock is held for long.

    A commit whose answer is lost may be done: `CommitStateUnknownException`, after which the table is read again.
    """

    @staticmethod
    def _create_hive_client(properties: dict[str, str]) -> _HiveClient:
        return _Ending(properties["uri"], properties.get("ugi"))

    def commit_table(
        self, table: Table, requirements: tuple[TableRequirement, ...], updates: tuple[TableUpdate, ...]
    ) -> CommitTableResponse:
        try:
            return super().commit_table(table, requirements, updates)
        except NotImplementedError as error:
            raise not_written(table) from error
        except CommitFailedException as error:
            if not isinstance(error.__cause__, WaitingForLockException):
                raise
            raise DependencyDown(
                f"Table {dotted(table.name())} is locked in the Hive Metastore",
                why="another writer commits, or was killed while it did: such a lock ends after hive.txn.timeout, "
                "by default 300 s",
                next="repeat the command in five minutes; SHOW LOCKS in Hive names the holder",
                code="LW-3502",
            ) from None


def down(address: str, error: BaseException) -> DependencyDown:
    """The error for a metastore that does not answer."""
    return DependencyDown(
        "The Hive Metastore does not answer",
        why=f"thrift://{address}: {_words(error)}",
        next="start the metastore, or correct uri: of the catalog; streams wait and lose nothing",
        code="LW-3501",
    )


def _words(error: BaseException) -> str:
    text = str(getattr(error, "message", None) or error)
    return text.splitlines()[0] if text else "no answer"
