"""Spark settings: which of them a stream may set, and why others belong to Lakeward or to the driver."""

from __future__ import annotations

from lakeward.spec.checks.secrets import hides_secret

_OURS: tuple[tuple[str, str], ...] = (
    ("spark.master", "where a driver runs follows from `drivers:` in conf/lakeward.yaml"),
    ("spark.submit.", "where a driver runs follows from `drivers:` in conf/lakeward.yaml"),
    ("spark.app.", "a driver's name is its identity"),
    ("spark.jars", "jars come verified from one list"),
    ("spark.driver.extra", "jars come verified from one list"),
    ("spark.executor.extra", "jars come verified from one list"),
    ("spark.sql.extensions", "Lakeward sets the extensions of the lake"),
    ("spark.sql.catalog.", "catalogs are set in `catalog:` of conf/lakeward.yaml"),
    ("spark.sql.defaultCatalog", "catalogs are set in `catalog:` of conf/lakeward.yaml"),
    ("spark.wap.", "staging is how a batch is published; two of them would lose rows"),
    ("spark.sql.iceberg.", "these decide how a batch is written; the commit protocol sets them"),
    ("spark.sql.streaming.checkpointLocation", "the location of a checkpoint follows from the stream's id"),
    ("spark.sql.streaming.forceDeleteTempCheckpointLocation", "a checkpoint is never deleted"),
    ("spark.sql.streaming.stateStore.providerClass", "write state: {provider: ..}; it is frozen in the checkpoint"),
    ("spark.sql.streaming.stateStore.stateSchemaCheck", "state that does not fit would be misread"),
    ("spark.sql.streaming.stopActiveRunOnRestart", "the lease decides who runs"),
    ("spark.sql.session.timeZone", "times are UTC everywhere"),
    ("spark.sql.variable.substitute", "a name or a value with ${..} would become another one"),
)
_OF_A_STREAM = "spark.sql."
_STATIC = (
    "spark.sql.warehouse.dir", "spark.sql.catalogImplementation", "spark.sql.queryExecutionListeners",
    "spark.sql.streaming.streamingQueryListeners", "spark.sql.ui.", "spark.sql.streaming.ui.",
    "spark.sql.codegen.cache.maxEntries", "spark.sql.codegen.comments", "spark.sql.event.truncate.length",
    "spark.sql.cache.serializer", "spark.sql.debug", "spark.sql.globalTempDatabase", "spark.sql.hive.",
    "spark.sql.filesourceTableRelationCacheSize", "spark.sql.legacy.sessionInitWithConfigDefaults",
    "spark.sql.broadcastExchange.maxThreadThreshold", "spark.sql.subquery.maxThreadThreshold",
    "spark.sql.resultQueryStage.maxThreadThreshold", "spark.sql.defaultUrlStreamHandlerFactory.enabled",
    "spark.sql.metadataCacheTTLSeconds", "spark.sql.streaming.unsupportedOperationCheck",
)  # fmt: skip
"""Static settings: Spark reads them once, when the application starts; a session cannot change them."""
FROZEN = (
    "spark.sql.shuffle.partitions",
    "spark.sql.streaming.stateStore.providerClass",
    "spark.sql.streaming.stateStore.encodingFormat",
    "spark.sql.streaming.stateStore.rocksdb.formatVersion",
    "spark.sql.streaming.stateStore.compression.codec",
    "spark.sql.streaming.multipleWatermarkPolicy",
    "spark.sql.streaming.aggregation.stateFormatVersion",
    "spark.sql.streaming.flatMapGroupsWithState.stateFormatVersion",
    "spark.sql.streaming.join.stateFormatVersion",
    "spark.sql.streaming.statefulOperator.useStrictDistribution",
)
"""Settings frozen in the checkpoint: a restart silently keeps the old values."""


_OF_EXECUTORS = ("spark.executor.", "spark.dynamicAllocation.", "spark.shuffle.service.", "spark.cores.max",
                 "spark.task.maxFailures", "spark.excludeOnFailure.", "spark.yarn.", "spark.kubernetes.",
                 "spark.standalone.", "spark.deploy.")  # fmt: skip
_ON_OTHERS = {
    "standalone": ("spark.yarn.", "spark.kubernetes.", "spark.executor.instances"),
    "yarn": ("spark.kubernetes.", "spark.standalone.", "spark.deploy.", "spark.cores.max"),
    "kubernetes": ("spark.yarn.", "spark.standalone.", "spark.deploy.", "spark.cores.max"),
}
"""Backend -> settings of the others."""
_OF_SUBMISSION = (
    "spark.yarn.tags",
    "spark.yarn.maxappattempts",
    "spark.yarn.submit.waitappcompletion",
    "spark.kubernetes.driver.pod.name",
    "spark.kubernetes.executor.podnameprefix",
    "spark.kubernetes.executor.podtemplatefile",
    "spark.kubernetes.executor.podtemplatecontainername",
    "spark.kubernetes.executor.disableconfigmap",
    "spark.kubernetes.authenticate.cacertfile",
    "spark.kubernetes.driver.service.deleteontermination",
    "spark.kubernetes.driver.ownpersistentvolumeclaim",
    "spark.kubernetes.driver.reusepersistentvolumeclaim",
    "spark.authenticate.secret.driver.file",
    "spark.authenticate.secret.executor.file",
)
_GIVEN = {
    "spark.executor.cores": "executors: {cores: ..}",
    "spark.executor.memory": "executors: {memory: ..}",
    "spark.cores.max": "executors: {max: .., cores: ..}",
    "spark.dynamicallocation.enabled": "executors: {min: .., max: ..}; equal numbers keep all of them",
    "spark.dynamicallocation.minexecutors": "executors: {min: ..}",
    "spark.dynamicallocation.maxexecutors": "executors: {max: ..}",
    "spark.authenticate": "authenticate: true",
}
"""Settings of a driver with executors that have a key of their own in its entry."""
_GIVEN_FOR_PODS = {
    "spark.kubernetes.namespace": "namespace: ..",
    "spark.kubernetes.container.image": "image: ..",
    "spark.kubernetes.driver.container.image": "image: ..",
    "spark.kubernetes.authenticate.driver.serviceaccountname": "service_account: ..",
    "spark.kubernetes.driver.request.cores": "cores: ..",
}
_GIVEN_WITHOUT_MASTER = {
    **{key: words for key, words in _GIVEN.items() if key not in ("spark.cores.max", "spark.authenticate")},
    "spark.executor.instances": "executors: {min: .., max: ..}",
}
_GIVEN_FOR_YARN = {**_GIVEN_WITHOUT_MASTER, "spark.yarn.queue": "queue: .."}
_GIVEN_FOR_EXECUTOR_PODS = {
    **_GIVEN_WITHOUT_MASTER,
    **_GIVEN_FOR_PODS,
    "spark.kubernetes.executor.container.image": "image: ..",
    "spark.kubernetes.executor.request.cores": "executors: {cores: ..}",
}
TASK_ATTEMPTS = 4
"""Attempts of a task, as on a cluster: a lost Python worker does not fail the batch."""


def local(cores: int) -> str:
    """`spark.master` of a driver in one process. Plain `local[n]` would attempt each task only once."""
    return f"local[{cores},{TASK_ATTEMPTS}]"


def ineffective(key: str, cluster: str | None = None) -> str | None:
    """Why a setting of a whole driver has no effect; None if it has one.

    Args:
        cluster: the backend of its executors; None without executors.
    """
    low = key.lower()
    if low in _OF_SUBMISSION:
        return f"{key} has no effect: Lakeward sets it for each launch"
    if cluster is not None:
        other = low.startswith(_ON_OTHERS[cluster])
        return f"{key} has no effect: it is for another kind of cluster" if other else None
    if low.startswith(tuple(map(str.lower, _OF_EXECUTORS))):
        return f"{key} has no effect: it is for executors or a cluster, and this driver runs in one process"
    return None


def given_elsewhere(key: str) -> str | None:
    """The key of a driver's entry that replaces this setting; None without one."""
    return _GIVEN.get(key.lower())


def given_for_pods(key: str, *, executors: bool) -> str | None:
    """The key of a driver's entry that replaces this setting on Kubernetes; None without one."""
    return (_GIVEN_FOR_EXECUTOR_PODS if executors else _GIVEN_FOR_PODS).get(key.lower())


def given_for_yarn(key: str) -> str | None:
    """The key of a driver's entry that replaces this setting on YARN; None without one."""
    return _GIVEN_FOR_YARN.get(key.lower())


def refusal(key: str, *, whole_driver: bool = False) -> str | None:
    """Why a setting is refused; None if it is allowed. `whole_driver`: it is under `drivers:`."""
    low = key.lower()
    if hides_secret(key):
        return "a secret does not belong in Spark settings: they are shown in the UI; put it into the connection"
    for prefix, why in _OURS:
        if low == prefix.lower() or (prefix.endswith((".", "jars", "extra")) and low.startswith(prefix.lower())):
            return f"{key} cannot be set: {why}"
    if not whole_driver and (not low.startswith(_OF_A_STREAM) or low.startswith(tuple(map(str.lower, _STATIC)))):
        return f"{key} belongs to a whole driver, not to one stream: write it under `drivers:` in conf/lakeward.yaml"
    return None
