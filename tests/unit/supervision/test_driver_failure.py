"""The death of a driver, in a real registry: who waits for a person then."""

from __future__ import annotations

import pytest

from lakeward.connectors.cluster.connection import missing
from lakeward.platform.errors import DependencyDown, LakewardError, SpecError
from lakeward.platform.failures import FailureClass, judge
from lakeward.registry import drivers, restarts, streams
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


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (DependencyDown("The REST gateway does not answer", code="LW-2520"), "dependency"),
        (LakewardError("Driver nyc could not be started", code="LW-2501"), "infra"),
        (SpecError("AWS connection 'lake' does not exist", next="create it", code="LW-3002"), "config"),
        (missing("spark", "cluster", None), "config"),
    ],
)
def test_a_driver_that_cannot_be_launched_waits_for_its_cluster_or_for_a_person(
    connected, deployed, runtime, error, kind
) -> None:
    deployed("flights")
    with connected() as connection:
        assert drivers.record_intent(connection, "nyc", token="t", previous=None, backend="standalone")
        attempt = Failing(runtime, lambda: 0.0).not_started(connection, "nyc", error, observe.read(connection))
        assert restarts.newest(connection)[("nyc", None)].failure_class == kind
        blocked = streams.get(connection, "flights").blocked
    assert attempt.failure_class == kind and (attempt.delay is None) == (kind == "config")
    if kind != "config":
        assert blocked is None
        return
    assert (blocked["reason"], blocked["what"], blocked["why"]) == ("config", error.headline, error.why)
    assert blocked["next"] == f"{error.next}; then: lakeward streams start flights"
