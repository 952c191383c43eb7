from __future__ import annotations

import pytest

from lakeward.spec.checks.stream import property_refusal


@pytest.mark.parametrize(
    ("key", "value", "words"),
    [
        ("write.wap.enabled", "true", "it stages every batch"),
        ("gc.enabled", "false", "maintenance needs it"),
        ("lakeward.position", "x", "Lakeward's record"),
        ("write.data.path", "s3a://b", "maintenance expects them"),
        ("write.metadata.path", "s3a://b", "maintenance expects them"),
        ("write.metadata.delete-after-commit.enabled", "false", "must be true"),
        ("format-version", "1", "must be 2 or 3"),
        ("format-version", "9", "must be 2 or 3"),
        ("commit.retry.num-retries", "0", "a whole number above 0"),
        ("write.target-file-size-bytes", "128MB", "a whole number above 0"),
        ("history.expire.min-snapshots-to-keep", "٣", "in digits"),
        ("", "x", "needs a name"),
    ],
)
def test_what_would_break_the_table_is_refused(key, value, words):
    assert words in (property_refusal(key, value) or "")


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("format-version", "3"),
        ("write.metadata.delete-after-commit.enabled", "TRUE"),
        ("commit.retry.num-retries", "20"),
        ("write.parquet.compression-codec", "zstd"),
        ("owner", "ops"),
    ],
)
def test_the_others_are_the_users(key, value):
    assert property_refusal(key, value) is None
