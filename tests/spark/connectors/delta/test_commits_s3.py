"""Commits of Delta tables on an object store (SeaweedFS): a version is granted once."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import delta_s3
import forgetful_store
import object_store
import pytest
from delta_s3 import Writer
from object_store import KEY, SECRET, Weed
from proxy import Proxy

from lakeward.connectors.aws import account, conditional
from lakeward.connectors.file_access import FileAccess
from lakeward.platform import private
from lakeward.platform.errors import LakewardError, SpecError
from lakeward.platform.runtime import Lake, ObjectStore

VERSIONS = range(20)
IF_NONE_MATCH = rb"(?i)if-none-match"


@pytest.fixture(scope="module")
def weed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Weed]:
    with object_store.running(tmp_path_factory.mktemp("weed")) as made:
        yield made


@pytest.fixture
def proxy(weed: Weed) -> Iterator[Proxy]:
    made = Proxy(weed.port)
    yield made
    made.close()


def test_a_version_is_granted_once_also_where_the_answer_is_lost(weed: Weed, proxy: Proxy) -> None:
    """The stream's answers are lost for one version that it wins, and for one that it has lost already."""
    url, folder = "s3a://lake/race/_delta_log", "lake/race/_delta_log"

    def lose_one(one: Writer, version: int) -> None:
        if one.name == "stream" and version == 7:
            proxy.lose_answer(IF_NONE_MATCH)

    with delta_s3.writers({"stream": proxy.port, "optimize": weed.port}) as (stream, optimize):
        delta_s3.race((stream, optimize), url, VERSIONS, lose_one)
        proxy.lose_answer(IF_NONE_MATCH)
        stream.commit(url, 20)
        optimize.commit(url, 20)
        optimize.commit(url, 21)
        proxy.lose_answer(IF_NONE_MATCH)
        stream.commit(url, 21)
        assert (stream.versions[-1], optimize.versions[-1]) == (20, 21)
        assert delta_s3.mistakes(weed, (stream, optimize), folder, range(22)) == []
    assert proxy.lost == 3
    assert len(weed.names(folder)) == 22, "nothing else is left in the log"


def test_the_race_finds_a_store_that_looks_and_then_writes(weed: Weed) -> None:
    with delta_s3.writers({"stream": weed.port, "optimize": weed.port}, delta_s3.DELTA_S3) as both:
        delta_s3.race(both, "s3a://lake/lost/_delta_log", VERSIONS)
        assert delta_s3.mistakes(weed, both, "lake/lost/_delta_log", VERSIONS)


@pytest.mark.campaign(held_by="test_a_version_is_granted_once_also_where_the_answer_is_lost")
def test_a_large_commit_is_conditional_too(weed: Weed) -> None:
    """It is uploaded in parts, and the store decides at the last one."""
    folder = "lake/large/_delta_log"
    with delta_s3.writers({"stream": weed.port, "optimize": weed.port}) as both:
        granted = []
        for each in both:
            each.conf.set("fs.s3a.multipart.size", "5M")
            path = each.jvm.org.apache.hadoop.fs.Path(f"s3a://{folder}/{0:020d}.json")
            content = each.name.encode() * (1 << 20)
            granted.append(each.jvm.io.lakeward.S3LogStore.create(path, content, each.conf))
    assert granted == [True, False]
    [held] = weed.system().get_file_info([f"{folder}/{0:020d}.json"])
    assert held.size == len("stream") << 20


def test_the_store_of_this_test_run_is_conditional(weed: Weed) -> None:
    """For commands without Spark: an object is created once, and the trial leaves nothing."""
    lake = Lake(warehouse="s3://lake/alone", store=weed.store)
    conditional.check(lake, "s3a://lake/alone")
    assert weed.names("lake/alone") == []
    answers = [conditional.create(lake, "s3a://lake/alone/a b", each) for each in (b"one", b"two")]
    assert answers == [True, False]
    assert FileAccess(lake).text("s3://lake/alone/a b") == "one"


def test_a_store_that_ignores_the_condition_is_refused(tmp_path: Path) -> None:
    with forgetful_store.running() as made:
        given = {"aws_access_key_id": KEY, "aws_secret_access_key": SECRET,
                 "endpoint_url": f"http://127.0.0.1:{made.server_port}"}  # fmt: skip
        private.write(private.folder(private.folder(tmp_path / "secrets") / "aws") / "old.ini", account.render(given))
        store = ObjectStore(connection="old", connections=tmp_path / "secrets")
        lake = Lake(warehouse="s3://lake/w", store=store)
        with pytest.raises(SpecError, match="cannot hold Delta tables") as refused:
            conditional.check(lake, "s3a://lake/w")
        assert (refused.value.code, made.conditions) == ("LW-3504", 2)
        assert not [each for each in made.objects if "trial" in each]
        assert SECRET not in str(refused.value)
    with pytest.raises(LakewardError, match="Conditional creation at s3a://lake/w failed"):
        conditional.check(lake, "s3a://lake/w")
