"""A table has its folder to itself."""

from __future__ import annotations

import pytest

from lakeward.tables.guard.locations import canonical, overlap


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("/lake/t", "/lake/t/"),
        ("file:/lake/t", "/lake/t/"),
        ("file:///lake/t/", "/lake/t/"),
        ("s3a://b/t", "s3://b/t/"),
        ("s3n://b/t/", "s3://b/t/"),
        ("s3://b/t", "s3://b/t/"),
        ("hdfs://n/t", "hdfs://n/t/"),
        ("FILE:///lake//a/../t", "/lake/t/"),
        ("S3A://b/x/../t//u", "s3://b/x/../t//u/"),
    ],
)
def test_one_place_has_one_spelling(written, meant):
    assert canonical(written) == meant


def test_a_table_alone_is_fine():
    assert overlap("a.t", "/lake/a/t", {"a.t": "/lake/a/t", "a.t2": "/lake/a/t2", "a.u": None}, ["/ck/s/1"]) == ""


@pytest.mark.parametrize("other", ["/lake/a/t/inner", "file:///lake/a/t", "/lake/a", "/lake/b/..//a/t/inner"])
def test_another_table_under_over_or_at_the_same_place_is_named(other):
    assert "a.u" in overlap("a.t", "/lake/a/t", {"a.u": other}, [])


def test_a_checkpoint_under_the_table_is_named():
    assert "/lake/a/t/_ck/1" in overlap("a.t", "file:/lake/a/t", {}, ["file:///lake/a/t/_ck/1"])
    assert overlap("a.t", "s3a://b/t", {}, ["s3://b/t/ck"]) != ""
