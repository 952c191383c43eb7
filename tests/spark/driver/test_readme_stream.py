"""The stream the README shows, carried out: its records land, and what is wrong with one is said in quarantine."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from lakeward.cli.init import create
from lakeward.platform.runtime import Project
from lakeward.spec.read.loader import load_project

README = Path(__file__).parents[3] / "README.md"


def test_your_own_stream_lands(lab: Any, tmp_path: Path) -> None:
    (snippet,) = re.findall(r"^```yaml\n(.*?)^```", README.read_text(), flags=re.MULTILINE | re.DOTALL)
    project = Project(tmp_path / "mylake")
    create(project.root)
    (project.streams / "orders.yaml").write_text(
        snippet.replace("topics: [orders]", f"topics: [{lab.topic()}]").replace("shop.", f"{lab.namespace}.")
    )
    document = load_project(project).streams["orders"].spec.document()
    (topic,) = document["sources"]["source"]["kafka"]["topics"]
    order = {"order_id": 1, "customer": "ann", "amount": 100.0, "ordered_at": "2026-11-21T10:00:00Z"}
    lab.produce(
        topic,
        [order, {**order, "order_id": 2, "amount": -1.0}, {**order, "customer": None}, "not an order",
         {**order, "order_id": 3, "amount": "much"}],
    )  # fmt: skip
    lab.run(document, 5)
    landed = lab.rows("orders", "order_id, customer, round(tax, 2) AS tax")
    assert landed == [{"order_id": 1, "customer": "ann", "tax": 19.0}]
    wrong = lab.rows("orders_quarantine", "reason, CAST(raw AS STRING) AS raw, _kafka_offset AS at")
    assert sorted((row["at"], row["reason"]) for row in wrong) == [
        (1, "amount_is_positive"),
        (3, "decode"),
        (4, "decode"),
    ]
