"""The embedded broker's own files, made by Kafka's own tool."""

from __future__ import annotations

import uuid
from pathlib import Path

import pytest

from lakeward import jars
from lakeward.platform import ports
from lakeward.stack.kafka import Kafka

DASH_FIRST = uuid.UUID("f8000000-0000-4000-8000-000000000000")
"""In base64 `-AAAAAAAQACAAAAAAAAAAA`: one identity of 64 begins like that."""


def test_a_cluster_id_that_begins_with_a_dash_is_no_option(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(uuid, "uuid4", lambda: DASH_FIRST)
    jars.ensure()
    broker = Kafka(tmp_path, ports.any_free(), ports.any_free())
    broker.initialise(jars.find_java())
    assert "cluster.id=-AAAAAAAQACAAAAAAAAAAA" in (tmp_path / "data/meta.properties").read_text()
