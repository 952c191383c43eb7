"""Jar compatibility: the Spark and Scala versions a jar was built for, from its file name.

A jar for another version fails inside a batch with a missing method or class (`NoSuchMethodError: scala...`). Its name
reveals this before the start. Jars with other naming rules are not checked.
"""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from pathlib import Path

from lakeward.platform.errors import LakewardError, SpecError

# iceberg-spark-runtime-4.1_2.13-1.12.0, delta-spark_4.1_2.13-4.4.0, hudi-spark4.1-bundle_2.13-1.2.0
_SPARK = re.compile(r"spark(?:-[a-z]+)*[-_]?([2-9]\.\d)(?=[-_])")
_SCALA = re.compile(r"_(2\.1\d|3)(?=-)")
_OF_SPARK = re.compile(r"spark-[a-z0-9-]+_[0-9.]+-(\d+\.\d+)\.\d+")  # Spark's own modules have Spark's version
_CORE = re.compile(r"spark-core_([\d.]+)-(\d+\.\d+)\.[\w.-]+\.jar")


@dataclass(frozen=True)
class Engine:
    """The installed Spark: its minor version, e.g. `4.1`, and its Scala version, e.g. `2.13`."""

    spark: str
    scala: str


def pyspark_jars() -> Path:
    """The `jars` folder of the installed pyspark, found without importing it.

    Raises:
        LakewardError: pyspark is not installed.
    """
    spec = importlib.util.find_spec("pyspark")
    if spec is None or not spec.submodule_search_locations:
        raise LakewardError("pyspark is not installed here", next="uv sync --extra spark", code="LW-7204")
    return Path(spec.submodule_search_locations[0]) / "jars"


def engine(folder: Path) -> Engine | None:
    """The Spark version of the jars in a folder; None without Spark jars (pyspark-client has none)."""
    matches = (_CORE.fullmatch(jar.name) for jar in sorted(folder.glob("spark-core_*.jar")))
    return next((Engine(match[2], match[1]) for match in matches if match), None)


def misfit(name: str, here: Engine) -> str:
    """The other Spark or Scala version that a jar was built for; empty if it matches `here` or has no version."""
    scala, spark = _SCALA.search(name), _SPARK.search(name) or _OF_SPARK.match(name)
    other = []
    if spark and spark[1] != here.spark:
        other.append(f"Spark {spark[1]}")
    if scala and scala[1] != here.scala:
        other.append(f"Scala {scala[1]}")
    return " and ".join(other)


def check(jars: Iterable[Path], reviewed: Collection[str] = ()) -> None:
    """Refuse jars that were built for another Spark or Scala than the installed one.

    Args:
        jars: files of a class path.
        reviewed: names of Lakeward's own list. Spark's modules among them may have another minor version (the token
            provider of 4.0 runs with 4.1). If another jar of the list does not fit, pyspark is not the pinned version.

    Raises:
        SpecError: the first jar that does not fit.
    """
    try:
        folder = pyspark_jars()
    except LakewardError:
        return  # downloading and verifying jars does not need pyspark
    here = engine(folder)
    if here is None:
        return
    for jar in jars:
        ours = jar.name in reviewed
        if ours and _OF_SPARK.match(jar.name):
            continue
        other = misfit(jar.name, here)
        if other:
            raise SpecError(
                f"The jar {jar.name} does not fit Spark {here.spark}",
                why=f"{jar} is for {other}; pyspark here ({folder.parent}) is Spark {here.spark} with Scala "
                f"{here.scala}: it would fail inside a batch with a missing class or method",
                next="uv sync   (this version of Lakeward runs on the pyspark it pins)" if ours else f"rm {jar}",
                code="LW-7205",
            )
