"""The jars Lakeward runs: which ones (`ivy.xml`), their digests (`jars.sha256`), where they are, and how to get them.

One folder holds two sets: `spark/` goes on the classpath of drivers and of the Spark Connect server, `kafka/` runs the
embedded broker. The folder's name is the digest of the list, so another version of Lakeward never meets old jars.
`LAKEWARD_JARS` may name another folder of the same shape.
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
