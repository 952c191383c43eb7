"""A JVM that started this process, as on a cluster: what a JVM of our own gets at its start is set while it runs."""

from __future__ import annotations

from pathlib import Path

CONF = {"spark.submit.deployMode": "client"}
"""The submission says `cluster`, which Spark's context would read as an order to submit."""


def prepare(logging: Path, pgpass: Path | None) -> None:
    """Use the JVM that started this process: its log goes to files that rotate, and JDBC finds the passwords.

    Args:
        logging: the log4j configuration.
        pgpass: the PostgreSQL password file, of which the JVM's environment knows nothing.
    """
    from pyspark import SparkContext

    SparkContext._ensure_initialized()
    gateway = SparkContext._gateway
    jvm = gateway.jvm  # type: ignore[union-attr]  # initialised in the line above
    jvm.org.apache.logging.log4j.core.config.Configurator.reconfigure(jvm.java.net.URI.create(logging.as_uri()))
    if pgpass is not None:
        jvm.java.lang.System.setProperty("org.postgresql.pgpassfile", str(pgpass))
