"""`ivy.xml` and `jars.sha256` name the same jars; a fetch is whole and verified, or changes nothing."""

from __future__ import annotations

import shutil
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest

from lakeward.jars import check, ivy
from lakeward.platform.errors import DependencyDown, Refused


def test_every_dependency_is_exact_and_brings_nothing_along() -> None:
    for dependency in _dependencies():
        assert dependency.get("transitive") == "false", dependency.attrib
        assert not set(dependency.get("rev", "")) & set("+[](),"), dependency.attrib
        assert dependency.get("conf") in {"spark->default", "kafka->default"}, dependency.attrib


def test_the_list_of_digests_names_what_ivy_fetches() -> None:
    wanted = {
        f"{item.get('conf', '').split('-')[0]}/{item.get('name')}-{item.get('rev')}.jar" for item in _dependencies()
    }
    assert wanted == set(check.listed())


def test_other_bytes_are_never_put_in_place(jars: Path, tmp_path: Path) -> None:
    target = tmp_path / "target"
    fresh = Path(shutil.copytree(jars, tmp_path / "fresh"))
    (fresh / "spark" / "b-2.jar").write_bytes(b"other")
    with pytest.raises(Refused, match="not the reviewed one"):
        ivy.put_in_place(fresh, target)
    assert not target.exists()


def test_an_incomplete_folder_is_replaced_whole(jars: Path, tmp_path: Path) -> None:
    target = Path(shutil.copytree(jars, tmp_path / "target"))
    (target / "spark" / "a-1.jar").unlink()
    (target / "spark" / "old-0.jar").touch()
    ivy.put_in_place(jars, target)
    assert check.verify(target) == 3


@pytest.mark.parametrize("other", ["mine.txt", "spark/notes.txt", "kafka/more.jar/x"])
def test_a_folder_that_holds_something_else_is_never_replaced(jars: Path, tmp_path: Path, other: str) -> None:
    target = tmp_path / "target"
    (target / other).parent.mkdir(parents=True)
    (target / other).write_text("precious")
    with pytest.raises(Refused, match="has other files"):
        ivy.put_in_place(jars, target)
    with pytest.raises(Refused, match="has other files"):
        ivy.fetch(target)
    assert (target / other).read_text() == "precious"


def test_a_folder_another_process_finished_is_kept(jars: Path, tmp_path: Path) -> None:
    target = Path(shutil.copytree(jars, tmp_path / "target"))
    before = target.stat().st_ino
    ivy.put_in_place(jars, target)
    assert target.stat().st_ino == before


@pytest.mark.parametrize(
    ("output", "what", "advice"),
    [
        ("javax.net.ssl.SSLHandshakeException: PKIX path building failed", "certificate", "trustStore"),
        ("\t[FAILED     ] x#y;1.0!y.jar: Connection refused", "could not be fetched", "proxy"),
    ],
)
def test_a_failed_fetch_says_what_to_do(output: str, what: str, advice: str) -> None:
    error = ivy._failure(output)
    assert isinstance(error, DependencyDown)
    assert what in error.what
    assert advice in error.next


def _dependencies() -> list[ElementTree.Element]:
    return list(ElementTree.parse(ivy.IVY_FILE).getroot().iter("dependency"))
