"""Spark sessions: that of a launch, and a separate one for each stream."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from string import Template
from typing import TYPE_CHECKING

from lakeward import jars
from lakeward.connectors.aws import store
from lakeward.connectors.iceberg import catalog
from lakeward.connectors.kubernetes import executor_pods
from lakeward.connectors.spark import master as spark_master
from lakeward.engine import cluster, event_log, given_jvm, java_names
from lakeward.jars.java import DEEP_STACK, ROOM_FOR_CLASSES
from lakeward.platform import private
from lakeward.platform.runtime import Launch
from lakeward.spec.checks import spark_conf
from lakeward.spec.model.file_paths import here
from lakeward.spec.model.stream import StreamSpec

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LOGGING = Path(__file__).with_name("log4j2.properties")
SPARK_LOG = "spark.log"
_ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
_HDFS = "org.apache.spark.sql.execution.streaming.state.HDFSBackedStateStoreProvider"
BATCH_CONF = {
    # A batch's rows are cached for a second or two, from their count until they are written. Compression would cost a
    # fifth of what decoding costs. Rows that do not fit into memory go to disk either way.
    "spark.sql.inMemoryColumnarStorage.compressed": "false",
    # PySpark records the caller's line for every column expression, by a walk over the stack. It costs a fifth of a
    # second of CPU in every batch, for lines of Lakeward that mean nothing to users.
    "spark.python.sql.dataFrameDebugging.enabled": "false",
    # Each `persist` clones the whole session unless these have the values it needs. The first is about Hive's buckets,
    # which no table of the lake has; the second lets AQE coalesce cached partitions.
    "spark.sql.sources.bucketing.autoBucketedScan.enabled": "false",
    "spark.sql.optimizer.canChangeCachedPlanOutputPartitioning": "true",
}
"""Conf that makes batches cheaper."""
LOCAL_CHECKPOINT_FILES = {
    # Without Hadoop's native library FileContext, Spark's default, starts the process `readlink` sixteen times a batch.
    # This manager does not. On a local disk both write a temporary file and rename it by the same call.
    "spark.sql.streaming.checkpointFileManagerClass": "org.apache.spark.sql.execution.streaming.checkpointing."
    "FileSystemBasedCheckpointFileManager",
}
"""Conf of streams whose checkpoints are on a local disk."""
# Keys that a stream cannot set: exactly-once landing and secrecy depend on them.
_FIXED = (
    "spark.sql.catalog.", "spark.sql.extensions", "spark.sql.session.timeZone", "spark.sql.variable.substitute",
    "spark.wap.", "spark.redaction.",
)  # fmt: skip


def conf(launch: Launch, here: str | None = None) -> dict[str, str]:
    """The Spark conf of a launch. Holds no secret: it is shown in the Spark UI and on the JVM's command line.

    Args:
        here: the address by which its executors reach the driver; None without executors.
    """
    classpath = jars.spark_classpath(launch.runtime.jars)
    temporary = launch.folder / "tmp"
    base = {
        "spark.master": spark_conf.local(2),
        "spark.app.name": f"lakeward {launch.driver}",
        "spark.driver.memory": "1g",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        # Streams of one driver share the cores fairly; each has its own pool.
        "spark.scheduler.mode": "FAIR",
        "spark.ui.enabled": "true",
        "spark.ui.port": "0",
        "spark.ui.killEnabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.ui.retainedJobs": "200",
        "spark.ui.retainedStages": "200",
        "spark.ui.retainedTasks": "2000",
        "spark.sql.ui.retainedExecutions": "50",
        "spark.sql.streaming.ui.retainedQueries": "20",
        "spark.local.dir": str(temporary),
        "spark.sql.warehouse.dir": str(temporary / "warehouse"),
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.ansi.enabled": "true",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.streaming.stopTimeout": "60000",
        "spark.sql.streaming.noDataProgressEventInterval": "10000",
        "spark.sql.streaming.stateStore.providerClass": _ROCKSDB,
        "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
        "spark.sql.streaming.stateStore.rocksdb.boundedMemoryUsage": "true",
        "spark.sql.streaming.stateStore.rocksdb.maxMemoryUsageMB": "128",
        **BATCH_CONF,
        **checkpoint_files(launch.runtime.checkpoints),
        "spark.cleaner.periodicGC.interval": "10min",
    }
    base["spark.driver.extraClassPath"] = os.pathsep.join(str(jar) for jar in classpath)
    base |= event_log.conf(launch.folder)
    base |= catalog.spark_conf(launch.runtime.lake)
    if here is not None and launch.pod is None:
        base |= spark_master.conf(launch.runtime, here)
    if launch.cluster is not None:
        base |= given_jvm.CONF
    base |= launch.conf
    if here is not None and launch.pod is not None:
        base |= executor_pods.conf(launch, launch.pod, here, _template(launch))
    logging = (launch.folder / LOGGING.name).as_uri()
    options = (
        f"{DEEP_STACK} {ROOM_FOR_CLASSES} -Dlog4j2.configurationFile={logging} -Dderby.system.home={temporary}"
        " -XX:+ExitOnOutOfMemoryError"
    )
    if "-XX:+Use" not in launch.conf.get("spark.driver.extraJavaOptions", ""):
        options += " -XX:+UseSerialGC"  # a heap of a gigabyte on two cores: a third less memory than G1
    options = " ".join([options, *jars.archive.options(launch.runtime.jars)])
    base["spark.driver.extraJavaOptions"] = f"{options} {launch.conf.get('spark.driver.extraJavaOptions', '')}".strip()
    return base


def start(launch: Launch) -> SparkSession:
    """Start the JVM and the session; once in a process.

    Raises:
        DependencyDown: the cluster of its executors does not answer.
        SpecError: the cluster needs a secret, and there is none.
    """
    here = _address(launch)
    launch.folder.mkdir(parents=True, exist_ok=True)
    (launch.folder / "tmp").mkdir(exist_ok=True)
    (launch.folder / event_log.FOLDER).mkdir(exist_ok=True)
    text = Template(LOGGING.read_text()).substitute(file=launch.folder / SPARK_LOG)
    (launch.folder / LOGGING.name).write_text(text)
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"  # the UI listens on this address; without it, on every address
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    if here is not None and launch.pod is not None:
        private.write(_template(launch), json.dumps(executor_pods.template(launch, launch.pod), indent=2))
    elif here is not None:  # Python may have another path on the machines of the workers
        os.environ["PYSPARK_PYTHON"] = launch.conf.get(cluster.PYTHON, sys.executable)
        cluster.hand_over_secret(launch)
    if launch.runtime.pgpass is not None:
        os.environ.setdefault("PGPASSFILE", str(launch.runtime.pgpass))
    os.environ.update(catalog.environment(launch.runtime.lake, launch.runtime.jars))
    from pyspark.java_gateway import ensure_callback_server_started
    from pyspark.sql import SparkSession

    if launch.cluster is not None or launch.yarn is not None:
        given_jvm.prepare(launch.folder / LOGGING.name, launch.runtime.pgpass)
    builder = SparkSession.builder
    for name, value in conf(launch, here).items():
        builder = builder.config(name, value)
    try:
        session = builder.getOrCreate()
    finally:
        cluster.forget_secret(launch)
    java_names.remember()
    # Started here: streams start in parallel, and the first callback of one would start it while others need it.
    ensure_callback_server_started(session.sparkContext._gateway)  # type: ignore[no-untyped-call]  # pyspark's own
    return session


def _address(launch: Launch) -> str | None:
    """The address by which executors reach this driver; None for a driver without executors.

    Raises:
        DependencyDown: the cluster of its executors does not answer, or allows none.
    """
    if launch.yarn is not None:
        return os.environ["NM_HOST"]  # the name of this node
    if launch.pod is not None and executor_pods.used(launch):
        executor_pods.require_rights(launch.pod)
        return os.environ[executor_pods.ADDRESS]
    master = cluster.master_of(launch)
    return None if master is None else spark_master.reach(master)


def _template(launch: Launch) -> Path:
    """The file with the template of executors' pods."""
    return launch.folder / "executor.json"


def for_stream(session: SparkSession, spec: StreamSpec, checkpoint: str = "") -> SparkSession:
    """A separate session for the stream: it shares neither conf nor views with other streams.

    Args:
        checkpoint: the folder of its checkpoint; empty without one.
    """
    own = session.newSession()
    # Code in the JVM that has no session uses the thread's active one, and this thread may be a new one.
    own._get_j_spark_session_class(own._jvm).setActiveSession(own._jsparkSession)
    for name, value in stream_conf(spec, checkpoint).items():
        own.conf.set(name, value)
    return own


def stream_conf(spec: StreamSpec, checkpoint: str = "") -> Mapping[str, str]:
    """The session conf of one stream: state store, its `spark:` keys, and how its checkpoint is written."""
    provider = _ROCKSDB if spec.state.provider == "rocksdb" else _HDFS
    settings = {"spark.sql.streaming.stateStore.providerClass": provider}
    settings |= {name: value for name, value in spec.spark.items() if not name.startswith(_FIXED)}
    return {**settings, **(store.CHECKPOINT_FILES if store.on_s3(checkpoint) else {})}


def checkpoint_files(place: str) -> Mapping[str, str]:
    """The conf of a driver whose checkpoints are below `place`; empty if Spark's default is right.

    Also used if `place` is on S3: there the conf of each stream sets how its checkpoint is written, and a stream may
    still have its checkpoint on a local disk.
    """
    return LOCAL_CHECKPOINT_FILES if here(place) else {}
