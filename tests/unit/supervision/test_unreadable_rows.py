"""One registry row that nobody can read is a stream in state `unknown` with its words; all others are kept running."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from sqlalchemy import Executable, insert, update

from lakeward.cli.app import main
from lakeward.platform.errors import LakewardError
from lakeward.platform.runtime import Home, Runtime
from lakeward.registry import incidents as incident_rows
from lakeward.registry import streams
from lakeward.registry.incidents import Incident, Sent
from lakeward.registry.schema import drivers, generations, incidents, observations
from lakeward.registry.schema import streams as stream_rows
from lakeward.supervision import report
from lakeward.supervision.backends.local import LocalBackend
from lakeward.supervision.decide.health import State
from lakeward.supervision.notify.deliver import deliver
from lakeward.supervision.observe import Connect
from lakeward.supervision.reconcile import reconcile_once
from lakeward.supervision.report.document import entries_of
from lakeward.supervision.report.material import observe_all
from lakeward.tables.guard import readers
from lakeward.tables.needs import read_registry

NAMES = ("a", "odd", "z")


def generation(name: str, **values: Any) -> Executable:
    return update(generations).where(generations.c.stream == name).values(**values)


def stream(name: str, **values: Any) -> Executable:
    return update(stream_rows).where(stream_rows.c.id == name).values(**values)


ODD_ROWS: dict[str, Callable[[str], Executable]] = {
    "the spec is a text": lambda name: generation(name, spec="garbage"),
    "the spec is a list": lambda name: generation(name, spec=["garbage"]),
    "a part of the spec is of another kind": lambda name: generation(
        name, spec={"sink": "x", "sources": ["y"], "trigger": 7, "limits": "soon", "state": "big", "resources": "all"}
    ),
    "an interval cannot be read": lambda name: generation(
        name, spec={"trigger": {"every": "soonish"}, "limits": {"freshness": "x"}}
    ),
    "the block is a text": lambda name: stream(name, blocked="garbage"),
    "the conditions of the generation are a text": lambda name: stream(name, proving="garbage"),
    "the measured state is no number": lambda name: insert(observations).values(
        stream=name, query_state="running", watch={"state": {"rows": "many"}}
    ),
    "the state is of a newer version": lambda name: stream(name, state="dreaming"),
    "the process is a text": lambda name: insert(drivers).values(
        name=name, token="t", handle="garbage", backend="local", state="running"
    ),
    "the suspension of restarts has no end": lambda name: insert(incidents).values(
        kind="thrash", subject="streams", text="thrash", fields={"until": "some day"}
    ),
    "the details of an incident are a text": lambda name: insert(incidents).values(
        kind="dependency", subject="kafka:x", text="x", fields="garbage"
    ),
    "the message of an incident is a text": lambda name: insert(incidents).values(
        kind="stream", subject=name, text="x", fields={}, message={"refused": {"text": "x", "until": "some day"}}
    ),
}
"""What is odd -> the statement that makes it so for a stream and the driver of the same name."""


@pytest.fixture(params=list(ODD_ROWS), ids=list(ODD_ROWS))
def odd(request: pytest.FixtureRequest, deployed: Callable[..., None], connected: Connect) -> str:
    deployed("odd", driver="odd")
    deployed("a", "z", driver="readable")  # one process for both
    with connected() as connection:
        connection.execute(ODD_ROWS[request.param]("odd"))
    return str(request.param)


def test_the_streams_beside_odd_rows_are_launched_and_become_healthy(
    deployed: Callable[..., None],
    connected: Connect,
    runtime: Runtime,
    backend: LocalBackend,
    eventually: Callable[..., None],
) -> None:
    """Beside all of them at once: each row that ended the pass would keep the two from being launched."""
    deployed("a", "z", driver="readable")
    for number, make in enumerate(ODD_ROWS.values()):
        name = f"odd-{number}"
        deployed(name, driver=name)
        with connected() as connection:
            connection.execute(make(name))

    def healthy() -> bool:
        reconcile_once(connected, runtime, backend, holder="test", startup_grace_s=0)
        with connected() as connection:
            states = {stream.id: stream.state for stream in streams.all_streams(connection)}
        return (states["a"], states["z"]) == ("healthy", "healthy")

    eventually(healthy)


def test_lists_reports_and_messages_go_on(
    odd: str, connected: Connect, runtime: Runtime, backend: LocalBackend
) -> None:
    view = observe_all(connected, backend)
    rows, _ = entries_of(view)
    assert [row["id"] for row in rows] == list(NAMES)
    assert {view.verdicts[name].odd for name in ("a", "z")} == {False}
    if view.verdicts["odd"].odd:
        assert view.verdicts["odd"].state is State.UNKNOWN
        assert "stream odd" in view.verdicts["odd"].why
    for name in NAMES:
        try:
            assert report.read(connected, runtime, name, backend)[1]["id"] == name
        except LakewardError as error:
            assert (name, error.what) == ("odd", "Cannot read stream odd")
    with connected() as connection:
        for stream in ("a", "z"):
            connection.execute(update(stream_rows).where(stream_rows.c.id == stream).values(state="stalled"))
        incident_rows.opened(connection, "stream", "z", "Stream z is stalled")
        assert {"a", "z"} <= {item.stream for item in report.due(connection)}
        read_registry(connection)
    seen: list[str] = []

    class Channel:
        name = "test"

        def send(self, incident: Incident) -> Sent:
            seen.append(incident.text)
            if incident.subject == "odd":
                raise RuntimeError("cannot be written")
            return {}

    deliver(connected, Channel())
    assert "Stream z is stalled" in seen


def test_a_message_that_cannot_be_written_waits_alone(connected: Connect) -> None:
    sent: list[str] = []

    class Channel:
        name = "test"

        def send(self, incident: Incident) -> Sent:
            if incident.subject == "b":
                raise RuntimeError("cannot be written")
            sent.append(incident.subject)
            return {}

    with connected() as connection:
        for name in "abc":
            incident_rows.opened(connection, "stream", name, f"Stream {name} is stalled")
    done = deliver(connected, Channel())
    assert (sent, "cannot be written" in done.trouble) == (["a", "c"], True)
    sent.clear()
    deliver(connected, Channel())
    assert sent == [], "what was sent is sent once, and the odd one waits for its pause"


@pytest.mark.parametrize("form", ["json", "table"])
def test_the_exit_code_of_the_list_counts_the_odd_stream(
    form: str,
    deployed: Callable[..., None],
    connected: Connect,
    runtime: Runtime,
    tmp_path: Any,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    for name in NAMES:
        deployed(name, driver=name)
    home = Home(tmp_path / "home")
    home.root.mkdir()
    home.runtime_file.write_text(runtime.model_dump_json())
    monkeypatch.setenv("PGPASSFILE", str(runtime.pgpass))
    monkeypatch.setenv("LAKEWARD_REGISTRY_URL_FILE", str(runtime.registry_url_file))

    def code() -> Any:
        with pytest.raises(SystemExit) as end:
            main(["streams", "list", "-o", form, "--home", str(home.root), "--project", str(tmp_path)])
        return end.value.code

    assert code() == 0
    with connected() as connection:
        connection.execute(ODD_ROWS["the spec is a text"]("odd"))
    capsys.readouterr()
    assert code() == 3
    shown = capsys.readouterr().out
    assert all(name in shown for name in NAMES)
    with pytest.raises(SystemExit) as end:
        main(["streams", "status", "odd", "-o", form, "--home", str(home.root), "--project", str(tmp_path)])
    assert end.value.code == 3


def test_a_reader_whose_spec_cannot_be_read_pins_every_table_it_names(
    deployed: Callable[..., None], connected: Connect
) -> None:
    deployed("odd")
    with connected() as connection:
        connection.execute(generation("odd", spec={"sources": [{"iceberg": {"table": "nyc.flights"}}]}))
        [reading] = readers.registered(connection)["nyc.flights"]
    assert (reading.stream, reading.at) == ("odd", None)
