"""Sources of a socket: what a stream of one can be. Nothing of it can be read twice, so little is left."""

from __future__ import annotations

from collections.abc import Iterator

from lakeward.spec.model.stream import StreamSpec
from lakeward.spec.read.document import Path_
from lakeward.spec.read.messages import Finding

SINKS = ("kafka", "python", "console", "format")
"""Those that keep no position."""
_LOST = "nothing of a socket can be read twice"


def socket_findings(spec: StreamSpec) -> Iterator[Finding]:
    """What is wrong with a stream that reads a socket, and what it does not promise."""
    for name, source in spec.sources.items():
        if source.socket is None:
            continue
        at: Path_ = ("sources", name)
        said = f"{_LOST}: lines are lost with every stop, kill and failure; for looking, not for data"
        yield Finding((*at, "socket"), said, key=True, warning=True)
        if source.decode is not None:
            how = "a line of a socket is one column, value; from_json(value, ..) in the SQL makes columns of it"
            yield Finding((*at, "decode"), f"decode belongs to records of bytes; {how}", key=True)
        if len(spec.sources) > 1:
            why = "a stream that reads it begins anew at every start, and so would its other sources"
            yield Finding((*at, "socket"), f"{why}: give it a stream of its own", key=True)
        if spec.trigger.available_now:
            yield Finding(("trigger", "available_now"), "a socket has no end that could be available; use every:")
        if spec.sink.connector not in SINKS:
            why = f"{_LOST}, so no position says up to where it landed, and {spec.sink.connector} would hold lines " \
                  "that nobody can account for"  # fmt: skip
            instead = "use console, kafka or python; or put the lines into a topic or a file and land that"
            yield Finding(("sink", spec.sink.connector), f"{why}; {instead}", spec.sink.connector, SINKS, key=True,
                          needs=((*at, "socket"),))  # fmt: skip
