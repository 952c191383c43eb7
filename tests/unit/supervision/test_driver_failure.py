"""The death of a driver, in a real registry: who waits for a person then."""

from __future__ import annotations

import pytest

from lakeward.platform.failures import FailureClass, judge
from lakeward.registry import drivers, streams
from lakeward.supervision import observe
from lakeward.supervision.driver_failure import Failing
from lakeward.supervision.termination import Death

ERROR = "ModuleNotFoundError: No module named 'flights'"


@pytest.mark.parametrize(("named", "alerts"), [(None, "config"), ("flights", None)])
def test_a_stream_that_waits_for_a_person_keeps_its_reason_when_its_driver_dies(
    connected, deployed, runtime, named, alerts
) -> None:
    deployed("flights", "alerts")
    with connected() as connection:
        assert drivers.record_intent(connection, "nyc", token="t", previous=None, backend="local")
        facts = observe.read(connection)
    with connected() as connection:  # the driver's own last word, after the pass has read
        streams.block(connection, "flights", {"reason": "rolled-back", "what": "seq 7 to 9 are gone", "batch": 9})
        blocked = streams.get(connection, "flights").blocked
    death = Death(1, ERROR, judge(text=ERROR, exit_code=1), stream=named)
    assert death.judgement.failure_class is FailureClass.CONFIG
    with connected() as connection:
        Failing(runtime, lambda: 0.0).died(connection, drivers.find(connection, "nyc"), death, ERROR, facts)
        after = {item.id: item.blocked for item in streams.all_streams(connection)}
    assert after["flights"] == blocked
    assert (after["alerts"] or {}).get("reason") == alerts
