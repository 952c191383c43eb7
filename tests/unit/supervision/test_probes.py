"""Probes against real ports, folders and a real PostgreSQL."""

from __future__ import annotations

import json
import os
import socket
import threading
from contextlib import closing

import kube_api
import pytest
import yarn_rm

from lakeward.platform import ports
from lakeward.platform.runtime import Lake
from lakeward.supervision import probes
from lakeward.supervision.decide.dependencies import MACHINE, Dependency, Kind


@pytest.fixture
def runtime(runtime, postgres, database):
    lake = Lake(host=postgres.host, port=postgres.port, database=database, user=postgres.user, warehouse="/w")
    return runtime.model_copy(update={"lake": lake})


def ask(runtime, kind, name, **options):
    one = Dependency(kind, str(name))
    return probes.ask(runtime, [one], **options)[one]


def test_a_broker_that_is_away_says_which_and_why(runtime, monkeypatch) -> None:
    monkeypatch.setattr(probes, "ANSWER_S", 1.0)
    gone = runtime.model_copy(update={"kafka": {"lakeward_kafka": f"127.0.0.1:{ports.any_free()}"}})
    assert "127.0.0.1" in (ask(gone, Kind.KAFKA, "lakeward_kafka") or "")
    assert "known connections" in (ask(runtime, Kind.KAFKA, "nobody") or "")


def test_a_broker_that_takes_connections_and_never_answers_is_away(runtime, monkeypatch) -> None:
    monkeypatch.setattr(probes, "ANSWER_S", 1.0)
    with closing(socket.create_server(("127.0.0.1", 0))) as hung:
        port = hung.getsockname()[1]
        mute = runtime.model_copy(update={"kafka": {"lakeward_kafka": f"127.0.0.1:{port}"}})
        assert ask(mute, Kind.KAFKA, "lakeward_kafka") is not None


def test_the_catalogs_database_is_asked_and_not_only_its_port(runtime, database) -> None:
    assert ask(runtime, Kind.CATALOG, database) is None
    assert "does not exist" in (ask(runtime, Kind.CATALOG, "no_such_database") or "")


def test_a_store_must_take_a_file_and_have_room(runtime, tmp_path, monkeypatch) -> None:
    assert ask(runtime, Kind.STORE, tmp_path) is None
    assert ask(runtime, Kind.STORE, tmp_path / "made" / "later") is None
    assert list(tmp_path.glob("made*")) == []
    (tmp_path / "file").write_text("")
    assert ask(runtime, Kind.STORE, tmp_path / "file") is not None
    monkeypatch.setattr(probes, "ROOM_BYTES", 2**60)
    assert (ask(runtime, Kind.STORE, tmp_path) or "").startswith("disk full: ")


def test_the_clusters_of_drivers_are_asked_for_their_version(runtime, tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "none"))
    assert "No such file" in (ask(runtime, Kind.KUBERNETES, MACHINE) or "")
    with kube_api.running() as api:
        cluster = {"name": "c", "cluster": {"server": f"http://127.0.0.1:{api.port}"}}
        context = {"name": "x", "context": {"cluster": "c", "user": "u"}}
        (tmp_path / "none").write_text(
            json.dumps({
                "clusters": [cluster], "contexts": [context], "current-context": "x",
                "users": [{"name": "u", "user": {"token": "t"}}],
            })
        )  # fmt: skip
        assert ask(runtime, Kind.KUBERNETES, MACHINE) is None
        api.refusals["GET /version"] = (503, {})
        assert "503" in (ask(runtime, Kind.KUBERNETES, MACHINE) or "")
    with yarn_rm.running() as manager:
        assert ask(runtime, Kind.YARN, f"http://127.0.0.1:1,{manager.url}") is None, "a standby may be away"
        manager.standby = True
        assert ask(runtime, Kind.YARN, manager.url) is not None


def test_what_has_no_known_address_is_not_blamed(runtime) -> None:
    assert ask(runtime, Kind.STORE, "s3://bucket/warehouse") is None


def test_a_probe_that_hangs_holds_nobody_up(runtime, monkeypatch) -> None:
    forever = threading.Event()
    monkeypatch.setitem(probes._PROBES, Kind.CONNECT, lambda name, runtime: str(forever.wait()))
    assert ask(runtime, Kind.CONNECT, "x:1", patience_s=0.2) == "no answer in 0 s"
    forever.set()


def test_a_server_that_listens_answers(runtime) -> None:
    with closing(socket.create_server(("127.0.0.1", 0))) as server:
        port = server.getsockname()[1]
        assert ask(runtime, Kind.CONNECT, f"127.0.0.1:{port}") is None
    assert ask(runtime, Kind.CONNECT, f"127.0.0.1:{port}") == os.strerror(111)
