"""An object store that speaks S3's protocol: what Spark and PyIceberg are told of it, and whether it does its work."""

from __future__ import annotations

import os
from functools import lru_cache
from pathlib import Path
from typing import Any

from lakeward import jars
from lakeward.connectors.aws import account
from lakeward.connectors.aws.account import KEY, SECRET, TOKEN, Account
from lakeward.platform.errors import DependencyDown, LakewardError, SpecError
from lakeward.platform.runtime import Lake

CONNECT_S, ANSWER_S = 3, 10
"""How long a look at the store waits for a connection, and for an answer."""
CHECKPOINT_FILES = {
    # A file of a checkpoint is there whole or not at all, by one PUT; the usual way, a rename, is a copy on S3.
    "spark.sql.streaming.checkpointFileManagerClass": "org.apache.spark.internal.io.cloud."
    "AbortableStreamBasedCheckpointFileManager",
}
"""Conf of a stream whose checkpoint stands on S3."""
_SCHEMES = ("s3://", "s3a://")
_NAMED = "create it, or correct catalog: warehouse: and checkpoints: in conf/lakeward.yaml, or files: path: of a stream"
_IO = "org.apache.iceberg.io.ResolvingFileIO"
"""By the scheme of each path: tables made before the warehouse moved to S3 stay readable where they are."""
_PROVIDER = "software.amazon.awssdk.auth.credentials.DefaultCredentialsProvider"


def on_s3(place: str) -> bool:
    """Whether a place is one of an object store."""
    return place.startswith(_SCHEMES)


def account_of(lake: Lake) -> Account | None:
    """The account of the deployment's object store; None where it has no store.

    Raises:
        SpecError: the connection is not there, or not in order.
    """
    return None if lake.store is None else account.find(lake.store.connection, lake.store.connections)


def spark_conf(lake: Lake, catalog: str) -> dict[str, str]:
    """Where the store is, for Iceberg's catalog and for Hadoop's s3a. No key: see `environment`.

    Args:
        catalog: the prefix of the catalog's properties.
    """
    found = account_of(lake)
    if found is None:
        return {}
    conf = {
        f"{catalog}.io-impl": _IO,
        "spark.hadoop.fs.s3a.aws.credentials.provider": _PROVIDER,
        # A store that is away is said within a minute; the stream waits longer than that by itself.
        "spark.hadoop.fs.s3a.attempts.maximum": "3",
        "spark.hadoop.fs.s3a.retry.limit": "3",
        "spark.hadoop.fs.s3a.connection.establish.timeout": "5s",
    }
    if found.region is not None:
        conf[f"{catalog}.client.region"] = conf["spark.hadoop.fs.s3a.endpoint.region"] = found.region
    if found.endpoint is not None:
        conf |= {
            f"{catalog}.s3.endpoint": found.endpoint,
            f"{catalog}.s3.path-style-access": "true",  # buckets have no host names of their own there
            "spark.hadoop.fs.s3a.endpoint": found.endpoint,
            "spark.hadoop.fs.s3a.path.style.access": "true",
            "spark.hadoop.fs.s3a.connection.ssl.enabled": str(found.endpoint.startswith("https")).lower(),
        }
    return conf


def environment(lake: Lake, jars_at: Path | None = None) -> dict[str, str]:
    """What a Spark application needs in its environment before its JVM starts: the file with the keys, and the jars of
    S3, behind all others: the class archive holds only if the class path begins as it was made with.

    Args:
        jars_at: `Runtime.jars`.
    """
    found = account_of(lake)
    if found is None:
        return {}
    further = os.pathsep.join(str(jar) for jar in jars.s3_classpath(jars_at))
    return {**found.environment(), "SPARK_DIST_CLASSPATH": further}


def pyiceberg_properties(lake: Lake) -> dict[str, str]:
    """The same for PyIceberg, with the keys: they go to its clients and nowhere else."""
    found = account_of(lake)
    if found is None:
        return {}
    names = {KEY: "s3.access-key-id", SECRET: "s3.secret-access-key", TOKEN: "s3.session-token"}  # names
    given = {names[name]: value for name, value in found.keys().items()}
    if found.region is not None:
        given["s3.region"] = found.region
    if found.endpoint is not None:
        given["s3.endpoint"] = found.endpoint
    return given


def check(lake: Lake, *places: str) -> None:
    """Whether the store lets us look into places of it; those elsewhere are not looked at.

    Raises:
        SpecError: no such bucket, or the store does not let us in.
        DependencyDown: it does not answer.
    """
    there = [place for place in places if on_s3(place)]
    found = account_of(lake) if there else None
    if found is None:
        return
    from pyarrow.fs import FileSelector, FileType

    system = _system(found)
    for place in there:
        path = place.split("://", 1)[1].rstrip("/")
        bucket = path.split("/", 1)[0]
        try:
            empty = not system.get_file_info(FileSelector(path, allow_not_found=True))
        except OSError as error:
            raise _error(found, place, str(error)) from None
        if empty and _kind(system, bucket) == FileType.NotFound:
            raise SpecError(
                f"There is no bucket {bucket}",
                why=f"{place} at {found.endpoint or 'AWS'}, as {found.where}",
                next=_NAMED,
                code="LW-3009",
            )


def system(lake: Lake | None, place: str) -> Any:
    """The object store as a file system of pyarrow, by the keys of this moment.

    Args:
        place: what is wanted of it, for the error.

    Raises:
        SpecError: this deployment has none.
    """
    found = account_of(lake) if lake is not None else None
    if found is None:
        raise SpecError(
            f"There is no object store for {place}",
            why="conf/lakeward.yaml names none: no warehouse, no checkpoints and no connection",
            next="catalog: {connection: ..} in conf/lakeward.yaml (docs/how-to/land-on-s3.md), then: lakeward stack up",
            code="LW-3006",
        )
    return _system(found)


def told(lake: Lake, place: str, said: str) -> LakewardError:
    """What the store said of a place, as an error of ours."""
    return _error(account_of(lake) or Account(), place, said)


def _system(found: Account) -> Any:
    keys = found.keys()
    return _made(found.region, found.endpoint, *(keys.get(name) for name in (KEY, SECRET, TOKEN)))


@lru_cache(maxsize=4)
def _made(region: str | None, endpoint: str | None, *keys: str | None) -> Any:
    """A client; its connections are worth keeping from one batch to the next."""
    from pyarrow.fs import S3FileSystem

    given = zip(("access_key", "secret_key", "session_token"), keys, strict=True)
    return S3FileSystem(
        **{name: value for name, value in given if value},
        region=region,
        endpoint_override=endpoint,
        connect_timeout=CONNECT_S,
        request_timeout=ANSWER_S,
    )


def _kind(system: Any, bucket: str) -> Any:
    """What stands at a bucket's name; None where we may not ask."""
    try:
        return system.get_file_info(bucket).type
    except OSError:
        return None


def _error(found: Account, place: str, said: str) -> LakewardError:
    """The error for what a store answered. Its own words may repeat the key's id, never its secret."""
    code = said.partition("AWS Error ")[2].split(" ", 1)[0] or "no answer"
    at = f"{place} at {found.endpoint or 'AWS'}"
    if code == "NO_SUCH_BUCKET":
        return SpecError(
            f"There is no bucket for {place}", why=f"{at}, as {found.where}",
            next=_NAMED,
         code="LW-3007")  # fmt: skip
    if code in _REFUSED:
        return SpecError(
            f"The object store does not let Lakeward into {place}",
            why=f"{code} from {found.endpoint or 'AWS'}, as {found.where}",
            next=f"correct the key or its permissions: list, read, write and delete below {place}",
            code="LW-3008",
        )
    return DependencyDown(
        "The object store does not answer", why=f"{at}: {code}",
        next="streams wait for it; nothing is lost",
     code="LW-3005")  # fmt: skip


_REFUSED = (
    "ACCESS_DENIED", "INVALID_ACCESS_KEY_ID", "SIGNATURE_DOES_NOT_MATCH", "INVALID_CLIENT_TOKEN_ID",
    "UNRECOGNIZED_CLIENT", "EXPIRED_TOKEN", "INVALID_SIGNATURE", "MISSING_AUTHENTICATION_TOKEN",
)  # fmt: skip
