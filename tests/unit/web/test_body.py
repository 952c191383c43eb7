from __future__ import annotations

import gzip
import json

import pytest
from fastapi.testclient import TestClient

from lakeward.web.app import Gate, build
from lakeward.web.body import Bodies, Body
from lakeward.web.reads import Reads

DOCUMENT = {"now": "today", "streams": [{"id": f"s{number}", "snapshot": 2**60 + number} for number in range(500)]}


def test_a_compressed_body_is_the_same_document_with_the_age_of_each_answer() -> None:
    body = Body(DOCUMENT)
    for age_s, stale in ((0.5, None), (7.25, "the registry does not answer")):
        plain = body.with_age(age_s, stale)
        assert gzip.decompress(body.packed(age_s, stale)) == plain
        assert json.loads(plain)["age_s"] == age_s
        assert json.loads(plain)["stale"] == stale
    assert len(body.packed(0.5, None)) < len(body.with_age(0.5, None)) / 5


def test_a_document_is_encoded_once_for_each_part_of_it() -> None:
    bodies, made = Bodies(), []

    def seen(part: str) -> dict[str, object]:
        made.append(part)
        return {"part": part}

    found = [bodies.of(DOCUMENT, part, lambda part=part: seen(part)) for part in ("a", "b", "a")]
    assert made == ["a", "b"]
    assert found[0] is found[2]
    assert [json.loads(body.with_age(0, None))["part"] for body in found] == ["a", "b", "a"]


@pytest.mark.parametrize(
    ("accepted", "encoding"),
    [("gzip, deflate, br", "gzip"), ("br;q=1.0, gzip;q=0.8", "gzip"), ("gzip;q=0", None), ("identity", None)],
)
def test_streams_are_compressed_for_those_who_accept_it(site, accepted: str, encoding: str | None) -> None:
    gate = Gate(lambda: None, lambda: frozenset, lambda dag_id: "ada")
    client = TestClient(build(Reads(lambda: site.runtime), gate))
    answer = client.get("/api/v1/streams", headers={"Accept-Encoding": accepted})
    assert answer.headers.get("Content-Encoding") == encoding
    assert {"headline", "streams", "age_s"} <= answer.json().keys()
