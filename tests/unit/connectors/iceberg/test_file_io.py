"""A manifest that is cut is an error with words: PyIceberg's decoder would read on in the memory of the process."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyiceberg.avro.file import AvroOutputFile
from pyiceberg.io.pyarrow import PyArrowFileIO
from pyiceberg.schema import Schema
from pyiceberg.typedef import Record
from pyiceberg.types import NestedField, StringType

from lakeward.connectors.iceberg.file_io import CheckedFileIO, NotWhole, check_whole


@pytest.fixture
def whole(tmp_path: Path) -> bytes:
    """Two blocks of records."""
    schema = Schema(NestedField(1, "name", StringType(), required=True))
    file = PyArrowFileIO().new_output(f"{tmp_path}/made.avro")
    with AvroOutputFile[Record](file, schema, "made", metadata={"x": "y" * 200}) as out:
        out.write_block([Record("a" * 90)])
        out.write_block([Record("b")])
    return (tmp_path / "made.avro").read_bytes()


def test_a_whole_file_is_taken_and_every_cut_of_it_refused(whole: bytes) -> None:
    check_whole(whole, "made")
    taken = []
    for length in range(len(whole)):
        try:
            check_whole(whole[:length], "made")
        except NotWhole as error:
            assert str(error).startswith("made is no whole Avro file: ")
        else:
            taken.append(length)
    assert len(taken) == 2, "behind the header, and behind the first block, it is as whole as any"


@pytest.mark.parametrize("content", [b"", b"PAR1", b"Obj\x01", b"Obj\x01" + b"\xff" * 40, b"Obj\x01\x00" + b"s" * 40])
def test_what_is_no_avro_file_is_refused(content: bytes) -> None:
    with pytest.raises(NotWhole):
        check_whole(content, "made")


def test_it_is_checked_when_it_is_opened(whole: bytes, tmp_path: Path) -> None:
    cut = tmp_path / "cut.avro"
    cut.write_bytes(whole[:-20])
    (tmp_path / "cut.json").write_bytes(whole[:-20])
    files = CheckedFileIO()
    with pytest.raises(NotWhole, match=r"cut\.avro is no whole Avro file"):
        files.new_input(str(cut)).open()
    assert len(files.new_input(str(cut))) == len(whole) - 20 and files.new_input(str(cut)).exists()
    assert files.new_input(f"{tmp_path}/cut.json").open().read() == whole[:-20]
