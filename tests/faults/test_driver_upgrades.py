"""Generations changed under a running driver: proven, taken back by themselves, rolled back; no row lost or doubled."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from itertools import count
from typing import Any
from uuid import uuid4

import pytest

from lakeward.operations.request import Request, StreamOperation
from lakeward.operations.runner import Runner
from lakeward.platform.errors import Unhealthy
from lakeward.registry import drivers, generations, streams
from lakeward.spec.model.stream import StreamSpec
from lakeward.supervision.backends.base import Life
from lakeward.supervision.backends.local import LocalBackend

pytestmark = pytest.mark.timeout(1200)  # a bound for a hang; a busy machine may need minutes


@pytest.fixture
def backend(world: Any) -> Iterator[LocalBackend]:
    made = LocalBackend(world.runtime.drivers)
    yield made
    for job in made.find():
        if job.life is not Life.GONE:
            made.kill(job)


@pytest.mark.parametrize(
    "restarted",
    [
        False,
        pytest.param(
            True,
            marks=pytest.mark.campaign(
                held_by="tests/unit/operations/test_operations.py::test_restart_is_a_new_launch_of_a_lone_stream"
            ),
        ),
    ],
)
def test_a_generation_proves_itself_or_gives_way_and_any_can_come_back(
    world: Any, simple: Callable[..., Any], backend: LocalBackend, restarted: bool
) -> None:
    topic, table = world.kafka.create_topic(), f"{world.name}.t"
    document = simple(f"{world.name}_s", topic, table, resources={"driver": world.name})
    stream = world.deploy(document, desired="stopped")
    sent = count()

    def meanwhile(seconds: float) -> None:
        """While somebody waits, records go on coming."""
        world.numbers(topic, [next(sent) for _ in range(10)])
        time.sleep(seconds)

    operator = Runner(
        world.connect, world.runtime, author="ann", holder="a test", backend=backend, timeout_s=900.0,
        sleep=meanwhile, analyse=lambda spec, has, runtime: [],
    )  # fmt: skip

    def pend(number: int, **changed: Any) -> None:
        spec = StreamSpec.model_validate({"owner": "tests", **document, **changed})
        with world.connect() as connection:
            generations.add(
                connection, stream=stream, generation=number, spec=spec.document(), digest=uuid4().hex, sql=None,
                code={}, versions={}, author="ann", checkpoint=f"{world.runtime.checkpoints}/{stream}/1",
            )  # fmt: skip
            streams.set_pending(connection, stream, number)

    def launched() -> str:
        with world.connect() as connection:
            row = drivers.find(connection, world.name)
        assert row is not None
        return str(row.token)

    meanwhile(0.0)
    operator.run(Request(StreamOperation.START, stream))
    first = launched()

    pend(2, trigger={"every": "300ms"})
    assert "generation 2 is stable" in operator.run(Request(StreamOperation.UPGRADE, stream)).detail

    assert launched() == first, "an upgrade does not restart the driver"

    pend(3, transform={"sql": "SELECT *, 1 AS extra FROM source"})  # the table has no such column
    with pytest.raises(Unhealthy, match="generation 2 runs again") as failed:
        operator.run(Request(StreamOperation.UPGRADE, stream))
    assert "other columns than table" in failed.value.why
    assert world.stream(stream).generation == 2

    operator.run(Request(StreamOperation.ROLLBACK, stream, generation=1))
    assert world.stream(stream).generation == 1

    if restarted:
        operator.run(Request(StreamOperation.RESTART, stream))
    operator.run(Request(StreamOperation.STOP, stream))
    end = next(sent)
    rows = sorted(row["n"] for row in world.rows(table))
    assert rows == list(range(len(rows)))
    assert len(rows) <= end
