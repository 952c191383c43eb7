"""Packages that a stream brings: in the driver and on its Python workers, one set a process."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest
from wheels import index, wheel

from lakeward.connectors.python import packages
from lakeward.platform.errors import SpecError

pytestmark = pytest.mark.timeout(1200)  # a bound for a hang; a busy machine may need minutes

LOUD = """\
import shouting
from pyspark.sql import functions as F

def run(source):
    loud = F.udf(lambda text: shouting.shout(text), "string")
    return source.withColumn("s", loud("s")).withColumn("v", F.lit(shouting.VERSION))
"""


@pytest.fixture
def offered(tmp_path: Path, lab: Any, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An index; afterwards this process is as if no stream had brought anything."""
    folder = tmp_path / "offered"
    folder.mkdir()
    monkeypatch.setenv("UV_CONFIG_FILE", str(index(folder)))
    monkeypatch.setattr(packages, "_active", None)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setattr(lab.spark.sparkContext, "environment", dict(lab.spark.sparkContext.environment))
    lab.runtime = lab.runtime.model_copy(update={"drivers": tmp_path / "drivers"})
    return folder


def test_the_function_and_its_workers_import_what_the_stream_brings(lab: Any, offered: Path) -> None:
    one, two = (
        wheel(offered, "shouting", f"{n}.0", f"VERSION = {n}\ndef shout(text): return text.upper() + '!' * {n}\n")
        for n in (1, 2)
    )
    topic = lab.topic()
    lab.produce(topic, [{"n": 1, "s": "ahoy"}])
    transform = {"python": "loud:run", "code": {"loud.py": LOUD}}
    document = lab.spec(topic, transform=transform, requirements="requirements.txt", packages=[one])
    with pytest.raises(SpecError, match="cannot be planned") as without:
        lab.start({key: value for key, value in document.items() if key != "packages"})
    assert "No module named 'shouting'" in without.value.why
    lab.run(document, 1)
    assert [(row["s"], row["v"]) for row in lab.rows()] == [("AHOY!", 1)]
    with pytest.raises(SpecError, match="other packages than its driver has") as refused:
        lab.start({**document, "id": f"o_{lab.namespace}", "packages": [two]})
    assert "resources: {driver:" in refused.value.next
