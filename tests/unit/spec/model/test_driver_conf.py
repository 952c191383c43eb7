from __future__ import annotations

from lakeward.spec.model.driver_conf import QUICK, conf, place, pod, yarn
from lakeward.spec.model.settings import Driver
from lakeward.spec.model.stream import Executors
from lakeward.spec.model.types import Memory, SparkMaster

BIG = Driver(backend="standalone", master=SparkMaster("spark://h:7077"), memory=Memory("2g"))
DYNAMIC = "spark.dynamicAllocation."


def test_the_largest_wish_wins() -> None:
    specs = [
        {"resources": {"cores": 4}},
        {"resources": {"driver_memory": "512m"}},
        {"resources": {"driver_memory": "3g"}},
        {},
    ]
    assert conf(specs, Driver(cores=2, memory=Memory("1g"))) == {
        "spark.master": "local[4,4]",
        "spark.driver.memory": "3g",
    }


def test_without_wishes_the_project_decides() -> None:
    driver = Driver(cores=3, memory=Memory("2g"), spark={"spark.driver.maxResultSize": "1g"})
    assert conf([], driver) == {
        "spark.master": "local[3,4]",
        "spark.driver.memory": "2g",
        "spark.driver.maxResultSize": "1g",
    }


def test_a_driver_of_minutes_leaves_the_second_compiler_out() -> None:
    assert "spark.driver.extraJavaOptions" not in conf([], Driver())
    assert conf([], Driver(compiler="quick"))["spark.driver.extraJavaOptions"] == QUICK
    assert "ReservedCodeCacheSize=240m" in QUICK, (
        "as much as with both compilers: what Spark makes fills 48 MB in minutes"
    )


def test_executors_between_two_bounds_come_with_tasks_that_wait_and_go_after_three_triggers() -> None:
    wanted = Executors(min=1, max=4, cores=2, memory=Memory("3g"))
    found = conf(
        [{"trigger": {"every": "10s"}}, {"trigger": {"every": "5m"}}], BIG.model_copy(update={"executors": wanted})
    )
    assert found == {
        "spark.master": "spark://h:7077",
        "spark.driver.memory": "2g",
        "spark.executor.cores": "2",
        "spark.executor.memory": "3g",
        "spark.cores.max": "8",
        f"{DYNAMIC}enabled": "true",
        f"{DYNAMIC}minExecutors": "1",
        f"{DYNAMIC}maxExecutors": "4",
        f"{DYNAMIC}executorIdleTimeout": "900s",
        f"{DYNAMIC}shuffleTracking.enabled": "true",
        f"{DYNAMIC}shuffleTracking.timeout": "900s",
    }
    assert conf([{"trigger": {"every": "10s"}}], BIG)[f"{DYNAMIC}executorIdleTimeout"] == "120s"


def test_executors_by_lag_are_the_drivers_own_decision() -> None:
    found = conf([], BIG.model_copy(update={"executors": Executors(min=1, max=4, cores=2, by="lag")}))
    assert (found["spark.lakeward.executors.min"], found["spark.lakeward.executors.max"]) == ("1", "4")
    assert found["spark.cores.max"] == "8"
    assert not [key for key in found if key.startswith(DYNAMIC)]
    on_yarn = conf([], Driver.model_validate({"backend": "yarn", "executors": {"min": 1, "max": 4, "by": "lag"}}))
    assert (on_yarn["spark.lakeward.executors.max"], on_yarn["spark.executor.instances"]) == ("4", "4")


def test_the_same_number_twice_keeps_all_executors() -> None:
    found = conf([], BIG.model_copy(update={"executors": Executors(min=3, max=3), "authenticate": True}))
    assert not any(key.startswith(DYNAMIC) for key in found)
    assert (found["spark.cores.max"], found["spark.authenticate"]) == ("3", "true")


def test_an_entry_without_executors_has_those_its_streams_ask_for() -> None:
    asks = {"resources": {"executors": {"max": 5, "cores": 2}}}
    assert conf([{}, asks], BIG)["spark.cores.max"] == "10"
    assert conf([asks], BIG.model_copy(update={"executors": Executors(max=1)}))["spark.cores.max"] == "1"


def test_only_a_driver_in_cluster_mode_has_a_place_where_it_is_submitted():
    assert place(BIG) is None
    assert place(Driver()) is None
    given = {"deploy_mode": "cluster", "rest": "https://gateway:443/spark"}
    found = place(Driver.model_validate({**BIG.model_dump(mode="json", exclude_unset=True), **given}))
    assert found is not None
    assert (found.master, found.rest, found.ui) == ("spark://h:7077", "https://gateway:443/spark", None)


def test_a_pod_requests_the_heap_and_what_python_needs_beside_it() -> None:
    big = Driver.model_validate({"backend": "kubernetes", "image": "lakeward:1", "memory": "2g", "cores": 3})
    found = pod([{"resources": {"driver_memory": "4g"}}], big)
    assert found is not None
    assert (found.cores, found.memory_mib) == (3, 4096 + 1639)
    small = pod([], big.model_copy(update={"memory": Memory("512m")}))
    assert small is not None and small.memory_mib == 512 + 384
    given = Driver.model_validate({
        "backend": "kubernetes", "image": "lakeward:1", "memory": "1g", "spark": {"spark.driver.memoryOverhead": "100"},
    })  # fmt: skip
    own = pod([], given)
    assert own is not None and own.memory_mib == 1124
    assert pod([], BIG) is pod([], Driver()) is None
    assert conf([], big)["spark.master"] == "local[3,4]"


def test_a_driver_on_kubernetes_has_the_executors_of_its_entry() -> None:
    entry = {"backend": "kubernetes", "image": "lakeward:1", "cores": 1}
    fixed = conf([], Driver.model_validate({**entry, "executors": {"min": 3, "max": 3, "cores": 2, "memory": "2g"}}))
    assert (fixed["spark.master"], fixed["spark.executor.instances"]) == ("k8s://https://kubernetes.default.svc", "3")
    assert (fixed["spark.executor.cores"], fixed["spark.executor.memoryOverheadFactor"]) == ("2", "0.4")
    assert fixed["spark.executor.failuresValidityInterval"] == "1h", "a few lost executors a month end no application"
    assert "spark.cores.max" not in fixed
    moving = conf([], Driver.model_validate({**entry, "executors": {"min": 0, "max": 4}}))
    assert (moving["spark.dynamicAllocation.maxExecutors"], "spark.executor.instances" in moving) == ("4", False)
    wish = {"resources": {"executors": {"max": 4}}}
    assert conf([wish], Driver.model_validate(entry))["spark.master"] == "local[1,4]", "its entry decides"


def test_a_driver_on_yarn_has_executors_and_no_limit_of_cores() -> None:
    big = Driver.model_validate({"backend": "yarn", "executors": {"min": 2, "max": 2, "cores": 3, "memory": "2g"}})
    found = conf([], big)
    assert (found["spark.master"], found["spark.executor.instances"]) == ("yarn", "2")
    assert "spark.cores.max" not in found and "spark.dynamicAllocation.enabled" not in found
    moving = conf([{"resources": {"executors": {"min": 0, "max": 4}}}], Driver(backend="yarn"))
    assert moving["spark.dynamicAllocation.maxExecutors"] == "4"
    assert "spark.executor.instances" not in moving
    assert yarn(BIG) is yarn(Driver()) is None
    given = {"backend": "yarn", "queue": "q", "resource_manager": "http://a:1,http://b:2"}
    place_of = yarn(Driver.model_validate(given))
    assert place_of is not None
    assert (place_of.queue, place_of.resource_managers) == ("q", ("http://a:1", "http://b:2"))
