"""Unpacks a file as Spark does: by the end of its name, in any case of its letters."""

from __future__ import annotations

import bz2
import io
import zlib
from collections.abc import Callable
from typing import IO, Any, cast

_READ = 1 << 16
_ENDED = "it is cut off: its packed data have no end"
_DECOMPRESSORS: dict[str, Callable[[], Any]] = {
    ".gz": lambda: zlib.decompressobj(16 + zlib.MAX_WBITS),
    ".deflate": zlib.decompressobj,
    ".bz2": bz2.BZ2Decompressor,
}
_ZSTD = ".zst"
_HADOOP = (".snappy", ".lz4")
"""Hadoop's own framing, which no library of Python reads."""


def readable(name: str) -> bool:
    """Whether a file of this name can be unpacked here, or is not packed."""
    return not name.lower().endswith(_HADOOP)


class Unfit(ValueError):
    """A file cannot be unpacked; the text says why."""


def plain(file: IO[bytes], name: str) -> IO[bytes]:
    """The unpacked bytes of a file; the file itself if its name says that it is not packed.

    Args:
        file: at its beginning.
        name: its name or path.

    Returns:
        A binary file. Its reads raise `Unfit` where the content is damaged or cut off.

    Raises:
        Unfit: it is packed in a form that cannot be read here.
    """
    lowered = name.lower()
    for ending, fresh in _DECOMPRESSORS.items():
        if lowered.endswith(ending):
            return cast("IO[bytes]", io.BufferedReader(_Unpacked(file, fresh)))
    if lowered.endswith(_ZSTD):
        return cast("IO[bytes]", io.BufferedReader(_Zstd(file)))
    if not readable(name):
        ending = lowered[lowered.rindex(".") :]
        raise Unfit(f"{ending} files cannot be looked at before they are read; pack it as .gz, .bz2 or .zst")
    return file


class _Unpacked(io.RawIOBase):
    """Packed data, of which several may stand one after another."""

    def __init__(self, file: IO[bytes], fresh: Callable[[], Any]) -> None:
        self._file, self._fresh = file, fresh
        self._state: Any = None
        self._left = b""

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        while not self._left:
            packed = b"" if self._state is None or not self._state.eof else self._state.unused_data
            packed = packed or self._file.read(_READ)
            if not packed:
                if self._state is not None and not self._state.eof:
                    raise Unfit(_ENDED)
                return 0
            if self._state is None or self._state.eof:
                self._state = self._fresh()
            try:
                self._left = self._state.decompress(packed)
            except (zlib.error, OSError) as error:
                raise Unfit(f"it cannot be unpacked: {error}") from None
        count = min(len(buffer), len(self._left))
        buffer[:count], self._left = self._left[:count], self._left[count:]
        return count


class _Zstd(io.RawIOBase):
    """Packed by zstd; its errors are told from those of the file by where they come from."""

    def __init__(self, file: IO[bytes]) -> None:
        from pyarrow import CompressedInputStream

        self._packed = CompressedInputStream(file, "zstd")

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        try:
            read = self._packed.read(len(buffer))
        except OSError as error:
            if "Truncated compressed stream" in str(error):
                raise Unfit(_ENDED) from None
            if "ZSTD" in str(error):
                raise Unfit(f"it cannot be unpacked: {error}") from None
            raise
        buffer[: len(read)] = read
        return len(read)
