"""What a deploy would do, without doing it."""

from __future__ import annotations

import pytest

from lakeward.spec.deploy.plan import Accepted, checkpoint_obstacles, digest, plan
from lakeward.spec.model.stream import State, StreamSpec

KAFKA = {"topics": ["flights"], "max_offsets_per_trigger": 100}
BASE = {
    "id": "a",
    "owner": "x",
    "sources": {"f": {"kafka": KAFKA, "decode": {"json": "t TIMESTAMP, o STRING"}}},
    "transform": {"sql": "SELECT * FROM f"},
    "sink": {"iceberg": {"table": "n.a"}},
}
GROUPED = BASE | {
    "sources": {"f": BASE["sources"]["f"] | {"watermark": {"column": "t", "delay": "2h"}}},
    "transform": {"sql": "SELECT o, count(*) AS n FROM f GROUP BY o"},
}


def spec(base=BASE, **changes) -> StreamSpec:
    return StreamSpec.model_validate(base | changes)


def known(of: StreamSpec, *, wanted=True, pending=None, newest=1, newest_digest=None, retired=False) -> Accepted:
    return Accepted(1, of.document(), digest(of), newest, newest_digest or digest(of), pending, wanted, retired)


def only(accepted, specs):
    (change,) = plan(accepted, specs)
    return change


def test_a_new_stream_is_accepted_and_started_if_enabled():
    change = only({}, {"a": spec()})
    assert (change.change, change.generation, change.act) == ("new", 1, "accept")
    assert "will be started" in change.why
    assert "not started" in only({}, {"a": spec(enabled=False)}).why


def test_nothing_differs():
    change = only({"a": known(spec())}, {"a": spec()})
    assert (change.change, change.checkpoint_compatible, change.act) == ("same", True, "none")
    assert change.why == "nothing differs"


def test_a_changed_stream_that_runs_is_not_touched():
    change = only({"a": known(spec())}, {"a": spec(trigger={"every": "1m"})})
    assert (change.change, change.checkpoint_compatible, change.generation, change.act) == ("changed", True, 2, "pend")
    assert "changed: trigger" in change.why
    assert "upgrade pending" in change.why


def test_changed_python_makes_a_generation_and_whether_its_state_fits_is_not_known():
    before = spec(transform={"python": "m:f", "code": {"m.py": "a"}})
    after = spec(transform={"python": "m:f", "code": {"m.py": "b"}})
    change = only({"a": known(before)}, {"a": after})
    assert (change.checkpoint_compatible, change.act) == (None, "pend")
    assert "checked at the start" in change.why
    assert only({"a": known(before)}, {"a": before}).change == "same"
    assert only({"a": known(before)}, {"a": before.model_copy(update={"tags": ("x",)})}).checkpoint_compatible is True
    other = after.model_copy(update={"state": State(provider="hdfs")})
    assert "the state provider changes" in " ".join(checkpoint_obstacles(before, other))


def test_a_changed_stream_that_does_not_run_takes_it():
    change = only({"a": known(spec(), wanted=False)}, {"a": spec(tags=["x"])})
    assert (change.change, change.generation, change.act) == ("changed", 2, "accept")


def test_a_generation_that_waits_is_not_made_twice_and_is_taken_once_the_stream_is_stopped():
    new = spec(tags=["x"])
    waiting = {"newest": 2, "pending": 2, "newest_digest": digest(new)}
    running = only({"a": known(spec(), **waiting)}, {"a": new})
    assert (running.change, running.generation, running.act) == ("changed", 2, "none")
    stopped = only({"a": known(spec(), wanted=False, **waiting)}, {"a": new})
    assert (stopped.generation, stopped.act) == (2, "adopt")


def test_a_file_that_is_again_what_was_accepted_drops_what_waits():
    change = only({"a": known(spec(), newest=2, pending=2, newest_digest="other")}, {"a": spec()})
    assert (change.change, change.generation, change.act) == ("same", 1, "drop-pending")


def test_a_file_never_stops_a_stream():
    gone = only({"a": known(spec())}, {})
    assert (gone.change, gone.act) == ("removed", "none")
    assert "continues as deployed" in gone.why
    disabled = only({"a": known(spec())}, {"a": spec(enabled=False)})
    assert "enabled: false, but it still runs: lakeward streams stop a" in disabled.why


def test_a_retired_stream_comes_back_where_it_stopped():
    change = only({"a": known(spec(), wanted=False, retired=True)}, {"a": spec()})
    assert (change.change, change.generation, change.act) == ("new", 1, "adopt")
    changed = only({"a": known(spec(), wanted=False, retired=True)}, {"a": spec(tags=["x"])})
    assert (changed.change, changed.generation, changed.act) == ("new", 2, "accept")
    other = only({"a": known(spec(), wanted=False, retired=True)}, {"a": spec(sink={"iceberg": {"table": "n.b"}})})
    assert (other.change, other.checkpoint_compatible, other.act) == ("new", False, "none")
    assert plan({"a": known(spec(), retired=True)}, {}) == []


def test_a_spec_of_another_version_is_not_guessed_at():
    old = Accepted(1, {"id": "a", "grammar": "of long ago"}, "d", 1, "d", None, False)
    change = only({"a": old}, {"a": spec()})
    assert (change.checkpoint_compatible, change.act) == (None, "pend")


def kafka(**changes):
    return {"f": BASE["sources"]["f"] | {"kafka": KAFKA | changes}}


def decoding(ddl, *more):
    """The source of GROUPED, or of REMEMBERS, with other columns."""
    source = REMEMBERS["sources"]["f"] if more else GROUPED["sources"]["f"]
    return {"sources": {"f": source | {"decode": {"json": ddl}}}}


REMEMBERS = BASE | {"sources": {"f": GROUPED["sources"]["f"] | {"deduplicate": {"keys": ["o"]}}}}
SUMMED = GROUPED | {"transform": {"sql": "SELECT count(DISTINCT *) AS n FROM f GROUP BY o"}}
JOINED = BASE | {
    "sources": {"f": GROUPED["sources"]["f"], "g": GROUPED["sources"]["f"]},
    "transform": {"sql": "SELECT f.o, g.t FROM f JOIN g ON f.o = g.o AND f.t = g.t"},
}
TWO = {"f": BASE["sources"]["f"], "g": BASE["sources"]["f"]}
COMPATIBLE = [
    (BASE, {"owner": "y"}),
    (BASE, {"trigger": {"every": "1s"}}),
    (BASE, {"transform": {"sql": "SELECT *, 1 AS one FROM f WHERE o = 'x'"}}),
    (BASE, {"rules": {"r": "o IS NOT NULL"}}),
    (BASE, {"sources": kafka(topics=["flights", "more"])}),
    (BASE, {"sources": kafka(max_offsets_per_trigger=7)}),
    (BASE, {"spark": {"spark.sql.shuffle.partitions": 7}}),  # no state: nothing remembers it
    (BASE, {"sink": {"iceberg": {"table": "n.a", "properties": {"x": "y"}}}}),
    (GROUPED, {"transform": {"sql": "-- a note\nselect o,\n count(*) as n\nfrom f group by o"}}),
    (GROUPED, {"limits": {"stall": "9m"}}),
    # What is only made of the aggregates is not in the state.
    (GROUPED, {"transform": {"sql": "SELECT upper(o) AS o, count(*) * 2 AS n, 1 AS one FROM f GROUP BY o"}}),
    (GROUPED, {"transform": {"sql": "SELECT o AS origin, count(*) AS m FROM f GROUP BY origin HAVING count(*) > 3"}}),
    (GROUPED, decoding("t TIMESTAMP, o STRING, more INT")),
    (REMEMBERS, {"transform": {"sql": "SELECT *, 1 AS one FROM f WHERE o = 'x'"}}),
    (REMEMBERS, decoding("t TIMESTAMP, o STRING, more INT", "deduplicate")),
]
OBSTACLES = [
    (BASE, {"sink": {"iceberg": {"table": "n.b"}}}, "the sink moves from n.a to n.b"),
    (BASE, {"sink": {"kafka": {"topic": "t"}}}, "the sink moves from n.a to kafka:t"),
    (BASE, {"sources": kafka(topics=["other"])}, "no longer reads flights"),
    (BASE, {"sources": kafka(connection="elsewhere")}, "reads another connection"),
    (BASE, {"sources": {"g": BASE["sources"]["f"]}, "transform": {"sql": "SELECT * FROM g"}}, "loses f and gets g"),
    (BASE, {"sources": TWO, "transform": {"sql": "SELECT * FROM f UNION ALL SELECT * FROM g"}}, "gets g"),
    (BASE, {"transform": GROUPED["transform"]}, "the query gains state"),
    (GROUPED, {"transform": BASE["transform"]}, "the query loses its state"),
    (GROUPED, {"transform": {"sql": "SELECT o, sum(1) AS n FROM f GROUP BY o"}}, "its state would not fit"),
    (
        GROUPED,
        {"transform": {"sql": "SELECT o, sum(1) AS s, count(*) AS n FROM f GROUP BY o"}},
        "has the aggregates SUM(1), COUNT(*), the state was made by COUNT(*); its state would not fit",
    ),
    (GROUPED, {"transform": {"sql": "SELECT o, count(*) AS n FROM f GROUP BY o HAVING max(t) IS NOT NULL"}}, "MAX(t)"),
    (
        GROUPED,
        {"transform": {"sql": "SELECT o, count(*) AS n FROM f GROUP BY o, t"}},
        "groups by o, t, the state was",
    ),
    (GROUPED, {"transform": {"sql": "SELECT o, count(*) AS n FROM f WHERE o > 'a' GROUP BY o"}}, "selects other rows"),
    (GROUPED, {"transform": {"sql": "SELECT o, mine(t) AS n FROM f GROUP BY o"}}, "its state would not fit"),
    (GROUPED, decoding("t TIMESTAMP, o INT"), "source f decodes o INT instead of STRING"),
    (SUMMED, decoding("t TIMESTAMP, o STRING, more INT"), "source f decodes more INT too"),
    (JOINED, {"transform": {"sql": "SELECT f.o FROM f JOIN g ON f.o = g.o AND f.t = g.t"}}, "its state would not fit"),
    (REMEMBERS, {"transform": {"sql": "SELECT o, count(*) AS n FROM f GROUP BY o"}}, "its state would not fit"),
    (
        REMEMBERS,
        {"sources": {"f": REMEMBERS["sources"]["f"] | {"deduplicate": {"keys": ["t"]}}}},
        "source f remembers t instead of o",
    ),
    (GROUPED, {"spark": {"spark.sql.shuffle.partitions": 7}}, "from its default to 7, but the checkpoint keeps"),
    (GROUPED, {"state": {"provider": "hdfs"}}, "the state provider changes"),
]


PASSED = {
    **BASE, "sources": {"f": BASE["sources"]["f"] | {"kafka": {"topics": ["flights"]}}},
    "sink": {"kafka": {"topic": "t"}},
    "quarantine": {"table": "n.q"}, "trigger": {"continuous": "1s"},
}  # fmt: skip
COMPATIBLE += [(PASSED | {"trigger": {"real_time": "5m"}}, {"trigger": {"continuous": "1s"}})]
OBSTACLES += [(PASSED, {"trigger": {"real_time": "5m"}}, "batches cannot continue from its checkpoint")]


@pytest.mark.parametrize(("base", "changes"), COMPATIBLE)
def test_changes_a_checkpoint_survives(base, changes):
    assert list(checkpoint_obstacles(spec(base), spec(base, **changes))) == []


@pytest.mark.parametrize(("base", "changes", "words"), OBSTACLES)
def test_changes_a_checkpoint_does_not_survive(base, changes, words):
    found = "; ".join(checkpoint_obstacles(spec(base), spec(base, **changes)))
    assert words in found
    change = only({"a": known(spec(base), wanted=False)}, {"a": spec(base, **changes)})
    assert (change.checkpoint_compatible, change.act) == (False, "pend")


def test_what_a_stream_of_a_table_passes_over_may_change_and_the_table_may_not():
    def feed(connector="iceberg", **source):
        return spec(sources={"f": {connector: {"table": "n.up", "max_files_per_trigger": 1} | source}})

    for after in (feed(skip=["deletes"]), feed(max_files_per_trigger=9), feed(starting="latest")):
        assert list(checkpoint_obstacles(feed(), after)) == []
    assert list(checkpoint_obstacles(feed("delta"), feed("delta", skip_changes=True))) == []
    assert "reads another table: n.other" in "; ".join(checkpoint_obstacles(feed(), feed(table="n.other")))


def test_sources_read_in_another_order_are_counted_by_place():
    before = spec(sources=TWO, transform={"sql": "SELECT * FROM f UNION ALL SELECT * FROM g"})
    after = spec(sources=TWO, transform={"sql": "SELECT * FROM g UNION ALL SELECT * FROM f"})
    assert "in another order" in "; ".join(checkpoint_obstacles(before, after))


def test_the_digest_is_of_the_meaning_not_of_the_order_of_keys():
    turned = StreamSpec.model_validate(dict(reversed(list(BASE.items()))))
    assert digest(turned) == digest(spec())
    assert digest(spec(), {"job.py": "1"}) != digest(spec())
