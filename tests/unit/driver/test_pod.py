"""A driver in a pod: how it comes to its launch, its own copies of secrets, and what it prints."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from small_streams import connected, registry_file, runtime

from lakeward.driver import pod
from lakeward.driver.cluster import Address
from lakeward.driver.launch_row import LaunchReporter
from lakeward.driver.pod import own_passwords, own_secrets, tee
from lakeward.platform.runtime import Launch, PodPlace, Runtime
from lakeward.registry import drivers, launches
from lakeward.supervision.observe import Connect

__all__ = ["connected", "registry_file", "runtime"]  # fixtures
PLACE = PodPlace(namespace="streams", image="lakeward:1", registry_secret="r", cores=1, memory_mib=900)


def test_files_of_secrets_are_copied_for_the_driver_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mounted = tmp_path / "mounted" / "kafka"
    (mounted / "..data").mkdir(parents=True)
    (mounted / "prod.json").write_text("{}")
    (mounted / "prod.json").chmod(0o444)
    there = tmp_path / "home" / "kafka"
    monkeypatch.setenv("LAKEWARD_SECRETS_FOLDER", str(mounted.parent))
    own_secrets({"kafka": str(there)})
    assert [(file.name, file.stat().st_mode & 0o777) for file in there.iterdir()] == [("prod.json", 0o600)]
    monkeypatch.setenv("PGPASSFILE", "/mounted")
    found = own_passwords(Address(mounted / "url", "postgresql://h/d", mounted / "prod.json"), tmp_path)
    assert found.pgpass is not None and found.pgpass.stat().st_mode & 0o777 == 0o600
    assert pod.os.environ["PGPASSFILE"] == str(found.pgpass)


def test_what_it_prints_is_in_the_log_of_the_pod_and_in_its_folder(tmp_path: Path) -> None:
    program = (
        "import sys, subprocess; from pathlib import Path; from lakeward.driver.pod import tee;"
        f"tee(Path({str(tmp_path / 'stdout.log')!r})); print('python', flush=True);"
        "subprocess.run(['sh', '-c', 'echo jvm >&2'])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.split() == ["python", "jvm"]
    assert (tmp_path / "stdout.log").read_text().split() == ["python", "jvm"]
    assert callable(tee)


def test_it_records_its_pod_where_its_starter_could_not(
    connected: Connect, runtime: Runtime, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    launch = Launch(driver="big", token="t1", folder=tmp_path, runtime=runtime, pod=PLACE, id="abc")
    with connected() as connection:
        assert drivers.record_intent(connection, "big", token="t1", previous=None, backend="kubernetes")
        launches.record(
            connection,
            "abc",
            driver="big",
            token="t1",
            document=launch.model_dump(mode="json"),
            place=PLACE.model_dump(),
        )
    monkeypatch.setenv(pod.UID, "u1")
    handle = pod._handle(launch)
    url = runtime.registry_url_file.read_text().strip()
    reporter = LaunchReporter(launch, url, runtime.pgpass, handle=handle, printed=("stdout.log",), jvm_given=False)
    reporter.claimed()
    monkeypatch.setattr(pod.os, "getppid", lambda: 1)
    assert not reporter.is_orphan(), "no JVM started it"
    with connected() as connection:
        row, launched = drivers.find(connection, "big"), launches.of_token(connection, "t1")
    assert row is not None and launched is not None
    assert row.handle == launched.handle == {"pod": "lakeward-big-abc", "namespace": "streams", "uid": "u1"}


def test_a_pod_without_the_file_of_its_registry_says_so_in_its_last_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("LAKEWARD_REGISTRY_URL_FILE", str(tmp_path / "registry.url"))
    monkeypatch.chdir(tmp_path)
    assert pod.main(["abc"]) == 2
    assert "LW-2524" in capsys.readouterr().err
