"""PyIceberg's files, checked before they are decoded: its Avro decoder does not look where a file ends.

It reads what is behind a manifest that was cut, from the memory of the process: other values, an error of any type, or
the end of the process and of what it does for all other tables.

Credentials of a role, and those that a REST catalog vends for a table, are those of now at each file: PyIceberg would
keep the first ones, which expire.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from io import BytesIO
from threading import Lock
from time import time
from typing import TYPE_CHECKING, Any, Final

from pyiceberg.io import InputFile, InputStream
from pyiceberg.io.pyarrow import PyArrowFileIO

from lakeward.connectors.aws import store
from lakeward.connectors.file_access import FileAccess
from lakeward.connectors.iceberg.catalogs.glue import account_of
from lakeward.platform.runtime import Lake

if TYPE_CHECKING:
    from pyiceberg.table import Table

_S3: Final = ("s3", "s3a", "s3n")
ACCESS_KEY: Final = "s3.access-key-id"  # its name
_ENDS_MS: Final = "s3.session-token-expires-at-ms"
_VENDED: Final = (ACCESS_KEY, "s3.secret-access-key", "s3.session-token", _ENDS_MS)
_EARLY_S: Final = 60.0
"""How long before their end vended credentials are renewed, but never more than a tenth of their life."""
_MAGIC: Final = b"Obj\x01"
_SYNC: Final = 16
_LONGEST: Final = 10  # bytes of a number


class NotWhole(ValueError):
    """Raised for a file that is cut, or no Avro file."""


class CheckedFileIO(PyArrowFileIO):
    """PyIceberg's files by PyArrow. An Avro file that is not whole is a `NotWhole` when it is opened.

    Attributes:
        vended: whether the catalog gave the keys, for one table; None: it did not.
    """

    vended: Vended | None = None

    def __init__(self, properties: dict[str, Any] | None = None) -> None:
        super().__init__(properties or {})
        self._renew()

    def __getstate__(self) -> dict[str, Any]:
        state = {**super().__getstate__(), "properties": dict(self.properties)}
        state.pop("vended", None)  # a copy in another process keeps the keys of now
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        self._renew()

    def vended_by(self, load: Callable[[], Mapping[str, str]]) -> None:
        """The keys among the properties were vended for a table. Before they end, `load` gives the next ones."""
        self.vended = Vended(self.properties, load)
        self.fs_by_scheme = self._of_the_table

    def _of_the_table(self, scheme: str, netloc: str | None = None) -> Any:
        keys = self.vended.now() if self.vended is not None and scheme in _S3 else {}
        given = {name: str(value) for name, value in self.properties.items() if name.startswith(("s3.", "client."))}
        return _opened(tuple(sorted((given | keys).items())), scheme, netloc)

    def _renew(self) -> None:
        """Open files with the keys of now, unless the properties have keys: a connection's, or the table's own."""
        if store.CONNECTION in self.properties and ACCESS_KEY not in self.properties:
            self.fs_by_scheme = self._system

    def _system(self, scheme: str, netloc: str | None = None) -> Any:
        keys = store.pyiceberg_keys(account_of(self.properties)) if scheme in _S3 else {}
        return _opened(tuple(sorted((self.properties | keys).items())), scheme, netloc)

    def new_input(self, location: str) -> Any:
        found = super().new_input(location)
        return _Avro(found) if location.endswith(".avro") else found


class Vended:
    """The credentials that a catalog vends for one table.

    Args:
        properties: with the first ones.
        load: gives properties with the next ones.
    """

    def __init__(self, properties: Mapping[str, str], load: Callable[[], Mapping[str, str]]) -> None:
        self._load = load
        self._lock = Lock()
        self._take(properties)

    def now(self) -> dict[str, str]:
        """The properties of valid credentials; of the last ones where the server does not say when they end."""
        with self._lock:
            if time() >= self._renew_at:
                self._take(self._load())
            return self._keys

    def _take(self, properties: Mapping[str, str]) -> None:
        self._keys = {name: str(properties[name]) for name in _VENDED if name in properties}
        ends = self._keys.get(_ENDS_MS)
        life_s = float("inf") if ends is None else int(ends) / 1000 - time()
        self._renew_at = time() + life_s - min(_EARLY_S, life_s / 10)


@lru_cache(maxsize=32)
def _opened(properties: tuple[tuple[str, Any], ...], scheme: str, netloc: str | None) -> Any:
    """A client, which keeps its connections open as long as it is used with the same keys."""
    return PyArrowFileIO(dict(properties))._initialize_fs(scheme, netloc)


class _Avro(InputFile):
    def __init__(self, file: InputFile) -> None:
        super().__init__(file.location)
        self._file = file

    def __len__(self) -> int:
        return len(self._file)

    def exists(self) -> bool:
        return self._file.exists()

    def open(self, seekable: bool = True) -> InputStream:
        with self._file.open(seekable) as stream:
            content = stream.read()
        check_whole(content, self.location)
        stream_of: Any = BytesIO(content)
        found: InputStream = stream_of
        return found


def files_of(lake: Lake, table: Table) -> FileAccess:
    """Access to the files below a table's location: as PyIceberg reaches them, where the catalog vends credentials for
    the table or the deployment has no object store; else by the connection of the deployment."""
    io = table.io
    if isinstance(io, CheckedFileIO) and (io.vended is not None or store.account_of(lake) is None):
        return FileAccess(lake, io.fs_by_scheme)
    return FileAccess(lake)


def check_whole(content: bytes, name: str) -> None:
    """Check that a file is a whole Avro container: a header, and blocks that end with its marker.

    Raises:
        NotWhole: it is not.
    """
    try:
        _walk(content)
    except NotWhole as error:
        raise NotWhole(f"{name} is no whole Avro file: {error}") from None


def _walk(content: bytes) -> None:
    if not content.startswith(_MAGIC):
        raise NotWhole(f"it has {len(content):,} bytes and does not begin as one")
    at = len(_MAGIC)
    while True:  # the header is a map: blocks of texts
        number, at = _long(content, at)
        if number == 0:
            break
        if number < 0:
            _, at = _long(content, at)
        for _ in range(2 * abs(number)):
            length, at = _long(content, at)
            at = _after(content, at, length)
    sync = content[at : _after(content, at, _SYNC)]
    at += _SYNC
    while at < len(content):
        _, at = _long(content, at)  # of records
        length, at = _long(content, at)
        at = _after(content, at, length)
        if content[at : _after(content, at, _SYNC)] != sync:
            raise NotWhole(f"the block before byte {at:,} does not end with the marker of the file")
        at += _SYNC


def _long(content: bytes, at: int) -> tuple[int, int]:
    """A number in zigzag code, and where it ends."""
    value = 0
    for place in range(_LONGEST):
        if at + place >= len(content):
            break
        byte = content[at + place]
        value |= (byte & 0x7F) << (7 * place)
        if byte < 0x80:
            return (value >> 1) ^ -(value & 1), at + place + 1
    raise NotWhole(f"it ends at byte {len(content):,}, within a number")


def _after(content: bytes, at: int, length: int) -> int:
    if not 0 <= length <= len(content) - at:
        raise NotWhole(f"it ends at byte {len(content):,}, and {length:,} bytes are wanted from byte {at:,} on")
    return at + length
