"""What a run tells of rows that went into quarantine since the last proof."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from lakeward.quality.ranges.range import decide
from lakeward.quality.ranges.snapshot_chain import Mark
from lakeward.quality.verdicts import quarantined
from lakeward.registry import changes


def test_the_commit_tells_it_with_the_words_of_whoever_did_it(line: Any, registry: Any) -> None:
    history = line("append", "append", "overwrite", "overwrite")
    ids = sorted(history.snapshots)
    acts = {ids[2]: "s/replay-1/ab", ids[3]: "s/7/cd"}
    named = {id: replace(each, wap_id=acts.get(id)) for id, each in history.snapshots.items()}
    named[ids[2]] = replace(named[ids[2]], total=17)
    history = replace(history, snapshots=named)
    found = decide(history, [Mark(ids[0], ids[0])])
    assert quarantined.describe(registry, found, history) == (
        "3 rows moved to quarantine by operation s/replay-1/ab, which has no record"
    )
    changes.record(registry, "table", "ns.t", "waive", author="ada")
    changes.record(registry, "table", "ns.t", "quarantine", author="ada", text="3 rows went", token="s/replay-1/ab")
    assert quarantined.describe(registry, found, history) == "3 rows went"
    assert quarantined.describe(registry, decide(line("append"), []), line("append")) == ""
