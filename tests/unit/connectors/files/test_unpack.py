"""Files of text are looked at as Spark reads them: unpacked by the end of their name, in UTF-8."""

from __future__ import annotations

import bz2
import gzip
import zlib
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

from lakeward.connectors.file_access import FileAccess
from lakeward.connectors.files.headers import differences
from lakeward.spec.model.sources import FilesSource

WHOLE, OPEN, OTHER = b"a,b\nx,1\n", b'a,b\n"x,1\ny,2\n', b"a,c\nx,1\n"


def zst(content: bytes) -> bytes:
    return bytes(pa.Codec("zstd").compress(content, asbytes=True))


PACKED = {".gz": gzip.compress, ".GZ": gzip.compress, ".bz2": bz2.compress, ".deflate": zlib.compress, ".zst": zst}
packed = pytest.mark.parametrize(("ending", "pack"), PACKED.items(), ids=PACKED)


@pytest.fixture
def told(tmp_path: Path) -> Callable[..., list[str]]:
    from pyspark.sql.types import StringType, StructField, StructType

    columns = StructType([StructField("a", StringType()), StructField("b", StringType())])

    def tell(name: str, content: bytes, *, header: bool = True) -> list[str]:
        file = tmp_path / name
        file.write_bytes(content)
        csv = name.startswith("csv")
        given: dict[str, object] = {"path": str(tmp_path), "max_files_per_trigger": 1, "format": "text"}
        if csv:
            given |= {"format": "csv", "columns": "a STRING, b STRING", "header": header}
        return differences(FileAccess(), file.as_uri(), FilesSource.model_validate(given), columns if csv else None)

    return tell


@packed
def test_a_packed_csv_is_looked_through_like_a_plain_one(
    told: Callable[..., list[str]], ending: str, pack: Callable[[bytes], bytes]
) -> None:
    assert told(f"csv{ending}", pack(WHOLE)) == []
    assert told(f"csv{ending}", pack(WHOLE) + pack(b"y,2\n")) == []
    assert told(f"csv{ending}", pack(OTHER)) == ["its header is a, c; declared are a, b"]
    for content in (pack(OPEN), pack(b"a,b\n") + pack(b'"x,1\n')):
        [words] = told(f"csv{ending}", content)
        assert words.startswith("line 2: a quoted value has no end")


@packed
def test_a_file_that_is_damaged_or_not_packed_at_all_is_refused(
    told: Callable[..., list[str]], ending: str, pack: Callable[[bytes], bytes]
) -> None:
    """Of a plain file named `.bz2` Spark reads no row, and says nothing."""
    for content in (WHOLE, pack(WHOLE)[:-9]):
        [words] = told(f"csv{ending}", content, header=False)
        assert words.startswith(("it cannot be unpacked", "it is cut off"))


@pytest.mark.parametrize("ending", [".snappy", ".LZ4"])
def test_what_cannot_be_unpacked_is_refused_as_csv_only(told: Callable[..., list[str]], ending: str) -> None:
    [words] = told(f"csv{ending}", b"\0\0\0\x08")
    assert "pack it as .gz, .bz2 or .zst" in words
    assert told(f"text{ending}", b"\0\0\0\x08") == []


@pytest.mark.parametrize("name", ["csv", "text", "text.gz"])
def test_utf_16_is_refused(told: Callable[..., list[str]], name: str) -> None:
    pack = gzip.compress if name.endswith(".gz") else bytes
    for encoding in ("utf-16-le", "utf-16-be"):
        content = pack("\ufeffx,1\ny,2\n".encode(encoding))
        assert told(name, content, header=False) == ["it begins with a byte order mark of UTF-16; files must be UTF-8"]
    assert told(name, pack("\ufeffx,1\n".encode()), header=False) == []
    assert told(name, pack(b""), header=False) == []
