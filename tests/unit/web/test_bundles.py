"""The built page is that of the sources: a bundle that was not built again after a change is found without Node."""

from __future__ import annotations

import json
from hashlib import sha256
from pathlib import Path

import yaml

from lakeward.spec.model.stream import StreamSpec, long_form
from lakeward.web import STATIC

UI = Path(__file__).parents[3] / "ui"


def test_the_bundles_are_built_from_these_sources() -> None:
    files = [file.relative_to(UI).as_posix() for file in (UI / "src").rglob("*") if file.is_file()]
    files = [name for name in files if name != "src/openapi.d.ts"]  # made from the reference
    digest = sha256()
    others = ["build.mjs", "package.json", "package-lock.json", "../docs/reference/openapi.json"]
    for name in sorted([*files, *others]):
        digest.update(name.encode() + b"\0" + (UI / name).read_bytes() + b"\0")
    assert (STATIC / "sources.sha256").read_text().strip() == digest.hexdigest(), "run: make page"


def test_the_bundles_are_small_and_ask_no_other_host() -> None:
    for name in ("main", "dag", "home"):
        bundle = (STATIC / f"{name}.umd.cjs").read_text(encoding="utf-8")
        assert len(bundle) < 500_000
        assert "cdn." not in bundle and "unpkg" not in bundle


def test_the_page_says_of_late_records_what_the_api_says() -> None:
    for name in ("main", "dag"):
        bundle = (STATIC / f"{name}.umd.cjs").read_text(encoding="utf-8")
        assert ".late_text" in bundle and ".late_dropped" not in bundle


def test_no_text_of_the_api_becomes_markup() -> None:
    for file in (UI / "src").rglob("*.tsx"):
        text = file.read_text(encoding="utf-8")
        assert "dangerouslySetInnerHTML" not in text and "innerHTML" not in text, file


def test_the_example_of_the_empty_page_is_a_valid_stream() -> None:
    source = (UI / "src" / "pages" / "streams.tsx").read_text(encoding="utf-8")
    listed = source.partition("const EXAMPLE = [")[2].partition("\n];")[0]
    lines = [json.loads(line.strip().rstrip(",")) for line in listed.strip().splitlines()]
    document = {"id": "orders", **yaml.safe_load("\n".join(lines))}
    assert StreamSpec.model_validate(long_form(document)).sink.label == "shop.orders"
