"""Jars of Lakeward: the list (`ivy.xml`), the digests (`jars.sha256`), their location and their download.

One folder has two sets: `spark/` is on the classpath of drivers and of the Spark Connect server, `kafka/` runs the
embedded broker. The folder is named by the digest of the list, so another version of Lakeward never uses old jars.
`LAKEWARD_JARS` may name another folder of the same layout.
"""

from __future__ import annotations

from lakeward.jars import archive, own
from lakeward.jars.check import verify
from lakeward.jars.fitting import pyspark_jars
from lakeward.jars.ivy import ensure, fetch
from lakeward.jars.java import Java, find_java
from lakeward.jars.places import folder, kafka_classpath, s3_classpath, spark_classpath, spark_folder

__all__ = [
    "Java",
    "archive",
    "ensure",
    "fetch",
    "find_java",
    "folder",
    "kafka_classpath",
    "own",
    "pyspark_jars",
    "s3_classpath",
    "spark_classpath",
    "spark_folder",
    "verify",
]
