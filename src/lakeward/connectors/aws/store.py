"""S3-compatible object stores: settings for Spark and PyIceberg, and a check of access."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from lakeward.connectors.aws import account
from lakeward.connectors.aws.account import KEY, SECRET, TOKEN, Account
from lakeward.platform.errors import DependencyDown, LakewardError, SpecError
from lakeward.platform.runtime import Lake, ObjectStore

CONNECT_S, ANSWER_S = 3, 10
"""How long a request to the store waits for a connection, and for an answer."""
CHECKPOINT_FILES = {
    # It writes a checkpoint file atomically by one PUT; the default, a rename, is a copy on S3.
    "spark.sql.streaming.checkpointFileManagerClass": "org.apache.spark.internal.io.cloud."
    "AbortableStreamBasedCheckpointFileManager",
}
"""The Spark conf of a stream with a checkpoint on S3."""
_SCHEMES = ("s3://", "s3a://")
_NO_BUCKET_NEXT = (
    "create it, or correct catalog: warehouse: and checkpoints: in conf/lakeward.yaml, or files: path: of a stream"
)
_IO = "org.apache.iceberg.io.ResolvingFileIO"
"""It chooses by the scheme of each path, so tables created before the warehouse moved to S3 stay readable."""
CONNECTION, CONNECTIONS = "lakeward.aws.connection", "lakeward.aws.connections"
"""Properties of PyIceberg's catalog: the AWS connection, and the folder with its file."""
_PROVIDER = "software.amazon.awssdk.auth.credentials.DefaultCredentialsProvider"
_ROLE_PROVIDER = "software.amazon.awssdk.auth.credentials.ProfileCredentialsProvider"
"""For a role. Hadoop makes one for each file system and closes it with that; of the other one it closes the JVM's only
one, and with it the client of STS, which then renews nothing for any file system ("Connection pool shut down")."""


def on_s3(place: str) -> bool:
    """Whether a path is on an object store."""
    return place.startswith(_SCHEMES)


def account_of(lake: Lake) -> Account | None:
    """The account of the deployment's object store, which may be that of a further catalog; None if it has no store.

    Raises:
        SpecError: the connection does not exist, or is not valid.
    """
    chosen = _store_of(lake)
    return None if chosen is None else account.find(chosen.connection, chosen.connections)


def _store_of(lake: Lake) -> ObjectStore | None:
    """The one object store of all catalogs: `config validate` refuses a second one."""
    return next((each.store for each in (lake, *lake.others) if each.store is not None), None)


def spark_conf(lake: Lake, catalog: str) -> dict[str, str]:
    """The Spark conf of the store, for Iceberg's catalog and for Hadoop's s3a. It has no key: the SDK finds it
    by environment variables.

    Args:
        catalog: the prefix of the catalog's properties.
    """
    account_ = account_of(lake)
    if account_ is None:
        return {}
    conf = {
        f"{catalog}.io-impl": _IO,
        "spark.hadoop.fs.s3a.aws.credentials.provider": _ROLE_PROVIDER if account_.role else _PROVIDER,
        # A store that is down is reported within a minute; the stream itself waits longer.
        "spark.hadoop.fs.s3a.attempts.maximum": "3",
        "spark.hadoop.fs.s3a.retry.limit": "3",
        "spark.hadoop.fs.s3a.connection.establish.timeout": "5s",
    }
    if account_.region is not None:
        conf[f"{catalog}.client.region"] = conf["spark.hadoop.fs.s3a.endpoint.region"] = account_.region
    if account_.endpoint is not None:
        conf |= {
            f"{catalog}.s3.endpoint": account_.endpoint,
            f"{catalog}.s3.path-style-access": "true",  # such a store has no host name for each bucket
            "spark.hadoop.fs.s3a.endpoint": account_.endpoint,
            "spark.hadoop.fs.s3a.path.style.access": "true",
            "spark.hadoop.fs.s3a.connection.ssl.enabled": str(account_.endpoint.startswith("https")).lower(),
        }
    return conf


def pyiceberg_properties(lake: Lake) -> dict[str, str]:
    """The catalog properties of the store for PyIceberg, with the keys, which only its clients get. Those of a role
    expire while a client is used: then the connection is named in their place, and `CheckedFileIO` reads them."""
    account_ = account_of(lake)
    if account_ is None:
        return {}
    if account_.role and (chosen := _store_of(lake)) is not None:
        properties = {CONNECTION: account_.connection, CONNECTIONS: str(chosen.connections)}
    else:
        properties = pyiceberg_keys(account_)
    properties |= {"s3.connect-timeout": str(CONNECT_S), "s3.request-timeout": str(ANSWER_S)}
    if account_.region is not None:
        properties["s3.region"] = account_.region
    if account_.endpoint is not None:
        properties["s3.endpoint"] = account_.endpoint
    return properties


def pyiceberg_keys(account_: Account) -> dict[str, str]:
    """The keys of an account, now, by PyIceberg's names."""
    names = {KEY: "s3.access-key-id", SECRET: "s3.secret-access-key", TOKEN: "s3.session-token"}  # names
    return {names[name]: value for name, value in account_.keys().items()}


def check(lake: Lake, *paths: str) -> None:
    """Check that the store can be listed at `paths`; paths outside an object store are skipped.

    Raises:
        SpecError: a bucket does not exist, or the store refuses access.
        DependencyDown: the store does not answer.
    """
    on_store = [path for path in paths if on_s3(path)]
    account_ = account_of(lake) if on_store else None
    if account_ is None:
        return
    from pyarrow.fs import FileSelector, FileType

    system = _system(account_)
    for url in on_store:
        path = url.split("://", 1)[1].rstrip("/")
        bucket = path.split("/", 1)[0]
        try:
            empty = not system.get_file_info(FileSelector(path, allow_not_found=True))
        except OSError as error:
            raise _error(account_, url, str(error)) from None
        if empty and _kind(system, bucket) == FileType.NotFound:
            raise SpecError(
                f"Bucket {bucket} does not exist",
                why=f"{url} at {account_.endpoint or 'AWS'}, as {account_.where}",
                next=_NO_BUCKET_NEXT,
                code="LW-3009",
            )


def system(lake: Lake | None, place: str) -> Any:
    """The object store as a file system of PyArrow, with the current keys.

    Args:
        place: the path, for the error.

    Raises:
        SpecError: this deployment has no object store.
    """
    account_ = account_of(lake) if lake is not None else None
    if account_ is None:
        raise SpecError(
            f"No object store is configured for {place}",
            why="conf/lakeward.yaml has no warehouse, no checkpoints and no connection on an object store",
            next="catalog: {connection: ..} in conf/lakeward.yaml (docs/how-to/land-on-s3.md), then: lakeward stack up",
            code="LW-3006",
        )
    return _system(account_)


def error_of(lake: Lake, place: str, message: str, keys: str = "") -> LakewardError:
    """The error for a message of the store about a path.

    Args:
        keys: where the keys are from, in words; empty: from the deployment's connection.
    """
    return _error(account_of(lake) or Account(), place, message, keys)


def _system(account_: Account) -> Any:
    keys = account_.keys()
    return _file_system(account_.region, account_.endpoint, *(keys.get(name) for name in (KEY, SECRET, TOKEN)))


@lru_cache(maxsize=4)
def _file_system(region: str | None, endpoint: str | None, *keys: str | None) -> Any:
    """A client, cached so that its connections stay open from one batch to the next."""
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
    """The type of the entry with a bucket's name; None if the request is refused."""
    try:
        return system.get_file_info(bucket).type
    except OSError:
        return None


def _error(account_: Account, place: str, message: str, keys: str = "") -> LakewardError:
    """The error for a message of the store. The message may repeat the key's id, never its secret."""
    code = message.partition("AWS Error ")[2].split(" ", 1)[0] or "no answer"
    vended, keys = bool(keys), keys or account_.where
    server = account_.endpoint or ("its server" if vended else "AWS")
    at = f"{place} at {server}"
    if code == "NO_SUCH_BUCKET":
        return SpecError(
            f"The bucket of {place} does not exist",
            why=f"{at}, as {keys}",
            next=_NO_BUCKET_NEXT,
            code="LW-3007",
        )
    if code == "EXPIRED_TOKEN" or "ExpiredToken" in message:  # PyArrow's SDK has no name for each code of a store
        return DependencyDown(
            "The credentials of the object store have expired",
            why=f"{at}, as {keys}",
            next="repeat the command: the table is loaded with other credentials; if it fails again, compare the clocks"
            if vended
            else "renew the session token of that connection; streams retry by themselves and lose nothing",
            code="LW-3432",
        )
    if code in _REFUSED:
        return SpecError(
            f"The object store refused access to {place}",
            why=f"{code} from {server}, as {keys}",
            next=f"correct {'what the catalog allows this login' if vended else 'the key or its permissions'}: "
            f"list, read, write and delete below {place}",
            code="LW-3008",
        )
    return DependencyDown(
        "The object store does not answer",
        why=f"{at}: {code}",
        next="check the object store and the network; streams retry by themselves and lose nothing",
        code="LW-3005",
    )


_REFUSED = (
    "ACCESS_DENIED", "INVALID_ACCESS_KEY_ID", "SIGNATURE_DOES_NOT_MATCH", "INVALID_CLIENT_TOKEN_ID",
    "UNRECOGNIZED_CLIENT", "INVALID_SIGNATURE", "MISSING_AUTHENTICATION_TOKEN",
)  # fmt: skip
