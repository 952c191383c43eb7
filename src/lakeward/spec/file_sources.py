"""Sources of files: what their spec must be, and streams that would take files from each other."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from lakeward.spec.document import Path_
from lakeward.spec.file_places import elsewhere, folder_of
from lakeward.spec.messages import Finding
from lakeward.spec.sources import FilesSource
from lakeward.spec.stream import StreamSpec


def file_source_findings(spec: StreamSpec) -> Iterator[Finding]:
    """What is wrong with the file sources of one stream."""
    for name, source in spec.sources.items():
        files, at = source.files, ("sources", name)
        if files is None:
            continue
        if files.format == "json" and (source.decode is None or source.decode.json_ is None):
            message = 'files of json need decode: {json: "name TYPE, .."}: the columns of an object, one a line'
            yield Finding((*at, "decode"), message, missing=source.decode is None)
        if files.format != "json" and source.decode is not None:
            how = "their columns stand under files: columns:" if files.columns else "a line is one column, value"
            yield Finding((*at, "decode"), f"decode belongs to records of bytes; of files of {files.format} {how}",
                          key=True)  # fmt: skip
        yield from _folder((*at, "files"), files)


def _folder(at: Path_, files: FilesSource) -> Iterator[Finding]:
    if elsewhere(files.path):
        return  # told by `not_yet`
    folder = folder_of(files.path)
    if not folder:
        yield Finding((*at, "path"), "this reads the whole machine; name a folder", files.path)
    elif not Path(folder).is_dir():
        message = f"there is no folder {folder} on this machine; the stream waits for it"
        yield Finding((*at, "path"), message, files.path, warning=True)


Taking = tuple[StreamSpec, str, FilesSource]
"""A stream, the name of a source of it, and that source."""


def takers(streams: Sequence[StreamSpec]) -> Iterator[tuple[Taking, Taking]]:
    """Sources that move or delete what they have landed, with another one that reads there too."""
    every: list[Taking] = [
        (spec, str(name), source.files)
        for spec in streams
        for name, source in spec.sources.items()
        if source.files is not None and not elsewhere(source.files.path)
    ]
    for one in every:
        if one[2].after == "keep":
            continue
        mine = folder_of(one[2].path)
        other = next((each for each in every if each is not one and _overlap(mine, folder_of(each[2].path))), None)
        if other is not None:
            yield one, other


def _overlap(one: str, other: str) -> bool:
    return f"{one}/".startswith(f"{other}/") or f"{other}/".startswith(f"{one}/")
