"""Sources of files: what their spec must be, and streams that would take files from each other."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from lakeward.spec.model.file_paths import elsewhere, folder_of, hadoop, on_s3
from lakeward.spec.model.sources import FilesSource
from lakeward.spec.model.stream import StreamSpec
from lakeward.spec.read.document import Path_
from lakeward.spec.read.messages import Finding

_BUCKET = re.compile(r"s3a?://[a-z0-9][a-z0-9.\-]{1,61}[a-z0-9](/.*)?")


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
    if on_s3(files.path):
        yield from _on_s3(at, files, folder)
    elif not folder:
        yield Finding((*at, "path"), "this reads the whole machine; name a folder", files.path)
    elif not Path(folder).is_dir():
        message = f"there is no folder {folder} on this machine; the stream waits for it"
        yield Finding((*at, "path"), message, files.path, warning=True)


def _on_s3(at: Path_, files: FilesSource, folder: str) -> Iterator[Finding]:
    if _BUCKET.fullmatch(folder) is None:
        message = "a place on S3 is s3://BUCKET/PREFIX; a bucket is 3 to 63 of a-z, 0-9, . and -"
        yield Finding((*at, "path"), message, files.path)
    elif files.after == "archive" and folder.count("/") < 3:
        message = "what is archived goes beside the folder that is read, and beside a bucket is another one: read a "
        yield Finding((*at, "after"), f"{message}prefix of it (s3://BUCKET/PREFIX), or keep or delete", files.after)


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
        mine = _place(one[2])
        other = next((each for each in every if each is not one and _overlap(mine, _place(each[2]))), None)
        if other is not None:
            yield one, other


def _place(files: FilesSource) -> str:
    return hadoop(folder_of(files.path))


def _overlap(one: str, other: str) -> bool:
    return f"{one}/".startswith(f"{other}/") or f"{other}/".startswith(f"{one}/")
