"""Drivers with executors on a cluster: what an entry and a stream may say, and what is refused with the reason."""

from __future__ import annotations

import pytest

HEAD = "owner: x\nsource: {kafka: {topics: [t], max_offsets_per_trigger: 5}}\n"
STREAM = HEAD + "decode: {json: 'n INT'}\ntransform: {sql: SELECT * FROM source}\ntrigger: {every: 10s}\n"
HOP = "owner: x\nsource: {kafka: {topics: [t]}}\ndecode: {json: 'n INT'}\nquarantine: {table: n.q}\n"
SINK = "sink: {iceberg: {table: n.t}}\n"
POD = "backend: kubernetes, image: 'lakeward:1'"
YARN = "backend: yarn"
BIG = "backend: standalone, master: 'spark://h:7077'"


def said(loaded):
    return [(each.file.rpartition("/")[2], each.path, each.severity, each.message) for each in loaded.problems]


def test_a_driver_on_a_cluster_is_understood(project):
    text = "drivers: {big: {" + BIG + ", authenticate: true, executors: {min: 0, max: 4, cores: 2, memory: 2g}}}"
    loaded = project({
        "conf/lakeward.yaml": text, "conf/streams/s.yaml": STREAM + SINK + "resources: {driver: big}\n",
    })  # fmt: skip
    assert loaded.ok, loaded.problems
    driver = loaded.settings.driver("big")
    assert driver.master.places == [("h", 7077)]
    assert (driver.executors.max, driver.executors.cores, driver.executors.memory) == (4, 2, "2g")


def test_executors_by_lag_need_one_that_stays_and_a_stream(project):
    entry = "drivers: {big: {" + BIG + ", executors: {min: %d, max: 4, by: lag}}}"
    assert project({"conf/lakeward.yaml": entry % 1}).ok
    [(_, path, _, words)] = said(project({"conf/lakeward.yaml": entry % 0}))
    assert path.startswith("drivers.big.executors") and "by: lag needs min: 1 or more" in words
    [(_, path, _, words)] = said(project({"conf/lakeward.yaml": (entry % 1).replace("big", "maintenance")}))
    assert path == "drivers.maintenance.executors.by" and "maintenance has no lag" in words


def test_a_driver_on_kubernetes_is_understood_and_maintenance_does_not_run_there(project):
    loaded = project({"conf/lakeward.yaml": "drivers: {big: {" + POD + ", namespace: streams, secrets: {k: /home/k}}}"})
    assert loaded.ok, loaded.problems
    driver = loaded.settings.driver("big")
    assert (driver.namespace, driver.registry_secret, dict(driver.secrets)) == (
        "streams", "lakeward-registry", {"k": "/home/k"},
    )  # fmt: skip
    found = said(project({"conf/lakeward.yaml": "drivers: {maintenance: {" + POD + "}}"}))
    assert [(path, "maintenance runs beside Airflow" in words) for _, path, _, words in found] == [
        ("drivers.maintenance.backend", True)
    ]


def test_a_driver_on_kubernetes_may_have_executors(project):
    own = "spark: {spark.kubernetes.executor.limit.cores: '2'}"
    entry = "drivers: {big: {" + POD + ", cores: 1, executors: {max: 3}, " + own + "}}"
    loaded = project({"conf/lakeward.yaml": entry})
    assert loaded.ok and not loaded.problems, loaded.problems
    given = STREAM + SINK + "resources: {driver: big, executors: {max: 2}}\n"
    [(_, path, _, words)] = said(project({"conf/lakeward.yaml": entry, "conf/streams/s.yaml": given}))
    assert path == "resources.executors" and "set its executors there" in words
    alone = "drivers: {big: {" + POD + "}}"
    [(_, _, _, words)] = said(project({"conf/lakeward.yaml": alone, "conf/streams/s.yaml": given}))
    assert "write executors: in its entry" in words


@pytest.mark.parametrize("key", ["spark.yarn.queue", "spark.cores.max", "spark.kubernetes.executor.podTemplateFile"])
def test_what_has_no_effect_for_executors_in_pods_is_said(project, key):
    entry = "drivers: {d: {" + POD + ", executors: {max: 3}, spark: {" + key + ": '5'}}}"
    assert [(item[1], item[2]) for item in said(project({"conf/lakeward.yaml": entry}))] == [
        (f"drivers.d.spark[{key}]", "warning")
    ]


def test_a_driver_on_yarn_is_understood_and_maintenance_does_not_run_there(project):
    text = "drivers: {big: {" + YARN + ", queue: root.streams, connection: spark_yarn, executors: {min: 0, max: 4}, "
    text += (
        "spark: {spark.yarn.stagingDir: 'hdfs:///tmp', spark.yarn.appMasterEnv.LAKEWARD_REGISTRY_URL_FILE: /etc/l}}}"
    )
    loaded = project({
        "conf/lakeward.yaml": text, "conf/streams/s.yaml": STREAM + SINK + "resources: {driver: big}\n",
    })  # fmt: skip
    assert loaded.ok and not loaded.problems, loaded.problems
    assert (loaded.settings.driver("big").queue, loaded.settings.driver("big").connection) == (
        "root.streams", "spark_yarn",
    )  # fmt: skip
    found = said(project({"conf/lakeward.yaml": "drivers: {maintenance: {" + YARN + "}}"}))
    assert [(path, "maintenance runs with Airflow" in words) for _, path, _, words in found] == [
        ("drivers.maintenance.backend", True)
    ]


@pytest.mark.parametrize(
    "key", ["spark.yarn.tags", "spark.yarn.maxAppAttempts", "spark.kubernetes.x", "spark.cores.max"]
)
def test_what_has_no_effect_on_yarn_is_said(project, key):
    loaded = project({"conf/lakeward.yaml": "drivers: {d: {" + YARN + ", spark: {" + key + ": '5'}}}"})
    assert [(item[1], item[2]) for item in said(loaded)] == [(f"drivers.d.spark[{key}]", "warning")]


def test_what_does_not_run_with_executors_does_not_run_on_yarn_either(project):
    given = STREAM.replace("trigger: {every: 10s}", "trigger: {real_time: 10s}") + SINK + "resources: {driver: big}\n"
    loaded = project({"conf/lakeward.yaml": "drivers: {big: {" + YARN + "}}", "conf/streams/s.yaml": given})
    assert any("with executors, as driver big has them" in words for *_, words in said(loaded)), loaded.problems


def test_masters_that_stand_by_are_named_beside_the_first(project):
    loaded = project({"conf/lakeward.yaml": "drivers: {d: {backend: standalone, master: 'spark://a:1,b:2'}}"})
    assert loaded.settings.driver("d").master.places == [("a", 1), ("b", 2)]


@pytest.mark.parametrize(
    ("entry", "at", "words"),
    [
        ("backend: standalone", "drivers.d", "needs the address of its master: spark://HOST:PORT"),
        ("backend: standalone, master: 'h:7077'", "drivers.d.master", "spark://HOST:PORT"),
        ("executors: {max: 3}", "drivers.d.executors", "runs all tasks in its own process"),
        ("master: 'spark://h:7077'", "drivers.d.master", "needs backend: standalone"),
        ("authenticate: true", "drivers.d.authenticate", "needs backend: standalone"),
        (BIG + ", spark: {spark.cores.max: 4}", "drivers.d.spark[spark.cores.max]", "executors: {max: .., cores: ..}"),
        (BIG + ", spark: {spark.authenticate: true}", "drivers.d.spark[spark.authenticate]", "authenticate: true"),
        ("deploy_mode: cluster", "drivers.d.deploy_mode", "needs backend: standalone"),
        (BIG + ", rest: 'http://h:6066'", "drivers.d.rest", "needs deploy_mode: cluster"),
        (BIG + ", deploy_mode: cluster, ui: 'h:8080'", "drivers.d.ui", "http(s)://HOST:PORT, without a login"),
        (BIG + ", deploy_mode: cluster, authenticate: true", "drivers.d.authenticate", "not supported with"),
        (YARN + ", master: 'spark://h:7077'", "drivers.d.master", "needs backend: standalone"),
        (YARN + ", deploy_mode: client", "drivers.d.deploy_mode", "runs in cluster mode"),
        (YARN + ", authenticate: true", "drivers.d.authenticate", "needs backend: standalone"),
        (YARN + ", queue: 'a b'", "drivers.d.queue", "a queue of YARN is a name"),
        (YARN + ", resource_manager: 'rm:8088'", "drivers.d.resource_manager", "http(s)://HOST:PORT"),
        (YARN + ", image: 'lakeward:1'", "drivers.d.image", "needs backend: kubernetes"),
        (YARN + ", spark: {spark.yarn.queue: q}", "drivers.d.spark[spark.yarn.queue]", "queue: .."),
        (YARN + ", spark: {spark.executor.instances: 2}", "drivers.d.spark[spark.executor.instances]", "executors: {"),
        ("queue: streams", "drivers.d.queue", "needs backend: yarn"),
        (BIG + ", hadoop_conf: /etc/hadoop", "drivers.d.hadoop_conf", "needs backend: yarn"),
        ("connection: c", "drivers.d.connection", "needs backend: standalone, yarn or kubernetes"),
        ("backend: kubernetes", "drivers.d", "needs the image of the driver's pod"),
        ("image: 'lakeward:1'", "drivers.d.image", "needs backend: kubernetes"),
        (BIG + ", namespace: streams", "drivers.d.namespace", "needs backend: kubernetes"),
        (POD + ", namespace: Streams", "drivers.d.namespace", "a namespace is lower case letters"),
        ("backend: kubernetes, image: 'a b'", "drivers.d.image", "an image is REGISTRY/NAME:TAG"),
        (POD + ", executors: {max: 2}, authenticate: true", "drivers.d.authenticate", "always authenticate"),
        (
            POD + ", executors: {max: 2}, spark: {spark.executor.instances: 4}",
            "drivers.d.spark[spark.executor.instances]",
            "executors: {min: .., max: ..}",
        ),
        (POD + ", deploy_mode: cluster", "drivers.d.deploy_mode", "needs backend: standalone"),
        (POD + ", secrets: {s: /etc/lakeward/registry}", "drivers.d.secrets", "is used by Lakeward itself"),
        (
            POD + ", spark: {spark.kubernetes.namespace: x}",
            "drivers.d.spark[spark.kubernetes.namespace]",
            "write this as namespace: ..",
        ),
    ],
)
def test_an_entry_that_cannot_be_is_refused_with_its_place(project, entry, at, words):
    [(file, path, severity, message)] = said(project({"conf/lakeward.yaml": "drivers: {d: {" + entry + "}}"}))
    assert (file, path, severity) == ("lakeward.yaml", at, "error")
    assert words in message


def test_settings_that_do_nothing_there_are_named_and_those_of_executors_are_not(project):
    text = "drivers: {d: {cores: 4, " + BIG + ", spark: {spark.yarn.queue: q, spark.executor.memoryOverhead: 1g}}}"
    found = {path: (severity, message) for _, path, severity, message in said(project({"conf/lakeward.yaml": text}))}
    assert sorted(found) == ["drivers.d.cores", "drivers.d.spark[spark.yarn.queue]"]
    assert {severity for severity, _ in found.values()} == {"warning"}


@pytest.mark.parametrize(
    ("driver", "stream", "at", "words"),
    [
        ("{}", "resources: {executors: {max: 3}}", "resources.executors", "with backend: standalone and its master"),
        ("{big: {}}", "resources: {driver: big, executors: {max: 3}}", "resources.executors", "its own process"),
        (
            "{big: {" + BIG + ", executors: {max: 2}}}", "resources: {driver: big, executors: {max: 3}}",
            "resources.executors", "set its executors there",
        ),
        (
            "{big: {" + BIG + "}}",
            "resources: {driver: big}\nquarantine: {table: n.q}\nsink: {postgres: {connection: c, table: a.b}}",
            "sink.postgres", "not yet: PostgreSQL as a sink with executors",
        ),
        (
            "{big: {" + BIG + "}}",
            "resources: {driver: big}\nsink: {kafka: {topic: o}}\ntrigger: {continuous: 1s}",
            "trigger", "not yet: continuous with executors",
        ),
    ],
)  # fmt: skip
def test_a_stream_that_does_not_go_with_its_driver_is_refused(project, driver, stream, at, words):
    base = STREAM if "trigger" not in stream else HOP
    text = base + ("" if "sink" in stream else SINK) + stream + "\n"
    found = said(project({"conf/lakeward.yaml": "drivers: " + driver, "conf/streams/s.yaml": text}))
    assert [(path, words in message) for _, path, severity, message in found if severity == "error"] == [(at, True)]


def test_streams_of_one_driver_ask_for_the_same_executors(project):
    both = {
        f"conf/streams/{name}.yaml": STREAM + f"sink: {{iceberg: {{table: n.{name}}}}}\n"
        + f"resources: {{driver: big, executors: {{max: {most}}}}}\n"
        for name, most in (("a", 2), ("b", 2), ("c", 3))
    }  # fmt: skip
    found = said(project({"conf/lakeward.yaml": "drivers: {big: {" + BIG + "}}", **both}))
    assert [(file, path) for file, path, _, _ in found] == [("c.yaml", "resources.executors")]
    assert "stream a shares driver big" in found[0][3]
