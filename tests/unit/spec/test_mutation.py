"""Whatever somebody types into a spec file, the loader answers with problems: it never raises."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lakeward.platform.runtime import Project
from lakeward.spec.read.loader import load_project

ROOT = Path(__file__).parents[3]
FILES = [
    "conf/streams/flights.yaml",
    "conf/streams/flights.sql",
    "conf/streams/departures_hourly.yaml",
    "conf/streams/delay_alerts.yaml",
    "conf/tables.yaml",
    "conf/lakeward.yaml",
    "expectations/nyc.flights.yaml",
]
TEXTS = {name: (ROOT / name).read_text() for name in FILES}
SCRAPS = [
    "",
    "{",
    "}",
    "[",
    "]",
    ": ",
    "\n",
    "- ",
    "&a ",
    "*a",
    "!!int ",
    "'",
    '"',
    "|\n ",
    "null",
    "~",
    "0",
    "-1",
    "1e9",
]
SCRAPS += [
    "true",
    ".inf",
    "\t",
    "#",
    "?",
    "<<: {a: 1}\n",
    "{}",
    "[]",
    "\x00",
    "\ud7ff",
    "SELECT",
    "(",
    ")",
    ";",
    "--",
    "`",
]

edits = st.lists(
    st.tuples(
        st.floats(0, 1, exclude_max=True),
        st.integers(0, 12),
        st.one_of(st.sampled_from(SCRAPS), st.text(max_size=8)),
    ),
    min_size=1,
    max_size=4,
)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(name=st.sampled_from(FILES), edits=edits)
def test_any_edit_of_a_valid_file_ends_in_problems_or_in_order(name, edits):
    text = TEXTS[name]
    for where, length, scrap in edits:
        start = int(where * len(text))
        text = text[:start] + scrap + text[start + length :]
    with TemporaryDirectory() as folder:
        for each, content in TEXTS.items():
            file = Path(folder, each)
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes((text if each == name else content).encode("utf-8", "surrogatepass"))
        loaded = load_project(Project(Path(folder).resolve()))
    for problem in loaded.problems:
        assert problem.line >= 1
        assert problem.column >= 1
        assert problem.message
        assert problem.text()


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=6),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3),
    max_leaves=6,
)
KEYS = ["id", "owner", "tags", "source", "sources", "decode", "watermark", "reference", "transform", "rules", "sink"]
KEYS += ["quarantine", "schema", "trigger", "lineage", "limits", "state", "resources", "spark", "restart", "enabled"]


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(data=st.dictionaries(st.sampled_from(KEYS), values, min_size=1, max_size=5))
def test_any_value_under_a_known_key_ends_in_problems_or_in_order(data):
    import json

    base = {
        "owner": "x",
        "source": {"kafka": {"topics": ["t"], "max_offsets_per_trigger": 5}},
        "sink": {"iceberg": {"table": "a.b"}},
    }
    with TemporaryDirectory() as folder:
        file = Path(folder, "conf", "streams", "a.yaml")
        file.parent.mkdir(parents=True)
        file.write_text(json.dumps({**base, **data}, ensure_ascii=True))
        loaded = load_project(Project(Path(folder).resolve()))
    assert loaded.ok == ("a" in loaded.streams or any(s != "a" for s in loaded.streams))
