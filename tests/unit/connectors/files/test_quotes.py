"""The quotes and line ends of a CSV file, before Spark reads it: what its reader would join or alter is named with its
line, in files of any length and wherever a chunk ends. That Spark does this is shown in
`tests/spark/driver/test_files.py`."""

from __future__ import annotations

import csv
import io
import random

import pytest

from lakeward.connectors.files import quotes

FAULTS = [
    (b'id,s\n1,"never closed\n2,b\n', "line 2: a quoted value has no end"),
    (b'id,s\n1,a\n2,"cut of', "line 3: a quoted value has no end"),
    (b'id,s\n1,"ends in a doubled quote""', "line 2: a quoted value has no end"),
    (b'id,s\n1,"open\n2,"b"\n3,c\n', "line 2: a quoted value spans lines and has a quote that is not doubled"),
    (b'id,s\r\n1,"x\r\ny"\r\n', "line 2: CR LF inside quotes would become LF"),
    (b'id,s\r1,a\r2,"x\ry"\r', "line 3: CR inside quotes would become LF"),
    (b'\xef\xbb\xbf"id","s"\n1,"open', "line 2: a quoted value has no end"),
    (b'"open', "line 1: a quoted value has no end"),
    (b'id,s\n1,"a\nb"\n2,"a\nb","open\n', "line 5: a quoted value has no end"),
    (b'id,s\nx"y," z\n1,2\n', "line 2: a quoted value has no end"),
    (b'id,s\n1,"a\nb"   x,"c"\n', "line 2: a quoted value spans lines and has a quote that is not doubled"),
    (b"id,s\n1,a\n2,b\r\n3,c\n", "line 3: it ends in CR LF, and the first one in LF"),
    (b"id,s\r\n1,a\r\n2,b\n3,c\r\n", "line 3: it ends in LF, and the first one in CR LF"),
    (b"id,s\r1,a\r2,b\n3,c\r", "line 3: it ends in LF, and the first one in CR"),
    (b"id,s\r1,a\r2,b\r\n3,c\r", "line 3: it ends in CR LF, and the first one in CR"),
    (b'id,s\n1,"a"\r\n', "line 2: it ends in CR LF"),
    (b'id,s\n1,"a\r\nb"\n2,b\r\n', "line 4: it ends in CR LF"),
    (b'id,s\r\n1,"a\nb"\r\n2,b\n3,"c"\r\n', "line 4: it ends in LF"),
    (b'id,s\r\n1,"a\nb"\r\n2,"b"\n', "line 4: it ends in LF"),
    (b'id,s\n1,"a\0""b"\n', "line 2: a NUL character before a doubled quote would be lost"),
]
SOUND = [
    b"",
    b"\n",
    b"id,s\n1,a\n",
    b'id,s\n1,"a\nb"\n2,"a\r\nb"\n3,"a\rb"\n',
    b'id,s\r\n1,"a\nb"\r\n2,"a\rb"  \r\n3,"a"',
    b'id,s\r1,"a\nb"\r',
    b'id,s\n1,"a ""b"" c"\n2,"""q"""\n3,""\n',
    b'id,s\n1,5" pipe\n2,6" pipe\n3, "x\n',
    b'id,s\n1,"a"b"\n2,"a"b\n',
    b'id,s\n1,"a\nb","c\nd"\n2,"e",\n"3",f\n',
    b'id,s\n1,a\rb\n2,"a\0"\n',
    b"id,s\r\n1,a\rb\r\n",
]


@pytest.fixture(params=[1, 2, 3, 5, 1 << 20], ids=lambda size: f"{size} bytes a chunk")
def chunk(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    monkeypatch.setattr(quotes, "_CHUNK", request.param)
    return int(request.param)


@pytest.mark.usefixtures("chunk")
@pytest.mark.parametrize(("content", "words"), FAULTS, ids=range(len(FAULTS)))
def test_a_fault_is_named_with_its_line(content: bytes, words: str) -> None:
    found = quotes.fault(io.BytesIO(content))
    assert found is not None
    assert found.startswith(words)


@pytest.mark.usefixtures("chunk")
@pytest.mark.parametrize("content", SOUND, ids=range(len(SOUND)))
def test_what_spark_reads_as_it_is_passes(content: bytes) -> None:
    assert quotes.fault(io.BytesIO(content)) is None


@pytest.mark.usefixtures("chunk")
@pytest.mark.parametrize("seed", range(20))
def test_a_written_file_passes_and_one_cut_inside_quotes_does_not(seed: int) -> None:
    draw = random.Random(seed)
    text = io.StringIO()
    quoting, letters = draw.choice([(csv.QUOTE_MINIMAL, 'ab ,"\n'), (csv.QUOTE_ALL, 'ab ,"\n\r')])
    writer = csv.writer(text, lineterminator="\n", quoting=quoting)
    writer.writerow(["a", "b", "c"])  # the first line end of a file is that of its lines
    rows = draw.randint(1, 30)
    writer.writerows(["".join(draw.choices(letters, k=draw.randint(0, 6))) for _ in range(3)] for _ in range(rows))
    whole = text.getvalue().encode()
    assert quotes.fault(io.BytesIO(whole)) is None
    cut = quotes.fault(io.BytesIO(whole + b'1,"last'))
    assert cut is not None
    assert cut.endswith("a quoted value has no end: the file is cut off, or a quote is missing")
    ends = whole.count(b"\n") + whole.count(b"\r") - whole.count(b"\r\n")
    assert cut.startswith(f"line {ends + 1}: ")


@pytest.mark.parametrize(
    ("content", "words"),
    [(b'id,s\n1,"' + b"abc\n" * 40, "line 2: its row is longer"), (b"abc," * 40, "line 1: its row is longer")],
    ids=["a quote without an end", "no line ends"],
)
def test_a_row_without_an_end_is_not_held_as_a_whole(
    monkeypatch: pytest.MonkeyPatch, content: bytes, words: str
) -> None:
    """What was read of it: a file of this kind may be larger than the memory of the driver."""
    monkeypatch.setattr(quotes, "_CHUNK", 8)
    monkeypatch.setattr(quotes, "_LONGEST", 32)
    file = io.BytesIO(content)
    found = quotes.fault(file)
    assert found is not None
    assert found.startswith(words)
    assert file.tell() < len(content)


def test_what_is_held_is_read_again_a_few_times_alone() -> None:
    """A value of many chunks: each reading is as long as what is held, so its bytes are looked at twice at most."""

    class Counted(io.BytesIO):
        readings = 0

        def read(self, size: int | None = -1, /) -> bytes:
            self.readings += 1
            return super().read(size)

    file = Counted(b'id,s\n1,"' + b"a" * 40_000_000 + b'"\n')
    assert quotes.fault(file) is None
    assert file.readings < 12
