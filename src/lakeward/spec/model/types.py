"""Value types of specs: durations, sizes, schedules, names; those of tables are in `table_names`.

Each keeps the text the user wrote, reports a problem in one sentence, and describes itself in the JSON Schema.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Annotated, Any, ClassVar, Self

from croniter import croniter
from pydantic import AfterValidator, Field, GetCoreSchemaHandler, GetJsonSchemaHandler
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema, core_schema

_IDENTIFIER = r"[A-Za-z_][A-Za-z0-9_]*"


class Written(str):
    """A string that is validated when it is read; subclasses add the meaning."""

    pattern: ClassVar[re.Pattern[str]]
    syntax: ClassVar[str]
    examples: ClassVar[list[str]]

    def __new__(cls, text: str) -> Self:
        if not isinstance(text, str) or not cls.pattern.fullmatch(text):
            raise ValueError(cls.syntax)
        return super().__new__(cls, text)

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_plain_validator_function(
            cls, serialization=core_schema.plain_serializer_function_ser_schema(str, when_used="json")
        )

    @classmethod
    def __get_pydantic_json_schema__(cls, schema: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        return {"type": "string", "pattern": f"^{cls.pattern.pattern}$", "examples": cls.examples}


class _Measured(Written):
    """A written quantity; compares by its amount, so that `60s` equals `1m`. Prints as written."""

    units: ClassVar[dict[str, float]]
    most: ClassVar[tuple[float, str]]
    """The largest allowed amount, as a number and in words: larger ones overflow clocks and counters."""

    def __new__(cls, text: str) -> Self:
        written = super().__new__(cls, text)
        if cls._amount(text) > cls.most[0]:
            raise ValueError(f"at most {cls.most[1]}")
        return written

    @classmethod
    def _amount(cls, text: str) -> float:
        """The amount of the text; infinity if a float cannot represent it."""
        match = cls.pattern.fullmatch(text)
        return float(match[1]) * cls.units[match[2]] if match else 0.0

    @property
    def amount(self) -> float:
        """The compared value."""
        raise NotImplementedError

    def __eq__(self, other: object) -> bool:
        return self.amount == other.amount if isinstance(other, type(self)) else NotImplemented

    def __ne__(self, other: object) -> bool:
        return self.amount != other.amount if isinstance(other, type(self)) else NotImplemented

    def __lt__(self, other: object) -> bool:
        return self.amount < other.amount if isinstance(other, type(self)) else NotImplemented

    def __le__(self, other: object) -> bool:
        return self.amount <= other.amount if isinstance(other, type(self)) else NotImplemented

    def __gt__(self, other: object) -> bool:
        return self.amount > other.amount if isinstance(other, type(self)) else NotImplemented

    def __ge__(self, other: object) -> bool:
        return self.amount >= other.amount if isinstance(other, type(self)) else NotImplemented

    def __hash__(self) -> int:
        return hash(self.amount)


class Duration(_Measured):
    """A span of time as written in a spec: `500ms`, `10s`, `5m`, `2h`, `7d`."""

    pattern = re.compile(r"([0-9]+(?:\.[0-9]+)?)(ms|s|m|h|d)")
    syntax = "a duration is a number and a unit: 10s, 5m, 2h or 7d"
    examples: ClassVar[list[str]] = ["10s", "5m", "2h", "7d"]
    units: ClassVar[dict[str, float]] = {"ms": 0.001, "s": 1, "m": 60, "h": 3600, "d": 86400}
    most: ClassVar[tuple[float, str]] = (36_500 * 86_400, "36500d (a hundred years)")

    @property
    def seconds(self) -> float:
        """The length in seconds."""
        return self._amount(self)

    @property
    def timedelta(self) -> timedelta:
        """The length as Python's own type."""
        return timedelta(seconds=self.seconds)

    @property
    def spark(self) -> str:
        """The length as a Spark interval, e.g. `10000 milliseconds`: for triggers and watermarks."""
        return f"{round(self.seconds * 1000)} milliseconds"

    amount = seconds


class Size(_Measured):
    """A size as written in a spec: `128MB`, `10GB`; 1 KB is 1024 bytes, as Iceberg and Spark count."""

    pattern = re.compile(r"([0-9]+(?:\.[0-9]+)?)(B|KB|MB|GB|TB)")
    syntax = "a size is a number and a unit: 512KB, 128MB or 10GB"
    examples: ClassVar[list[str]] = ["512KB", "128MB", "10GB"]
    units: ClassVar[dict[str, float]] = {"B": 1, "KB": 1 << 10, "MB": 1 << 20, "GB": 1 << 30, "TB": 1 << 40}
    most: ClassVar[tuple[float, str]] = (1 << 60, "1048576TB (1 EB)")

    @property
    def bytes(self) -> int:
        """The size in bytes."""
        return int(self._amount(self))

    amount = bytes


class Memory(Written):
    """Memory of a JVM in Spark's own form: `512m`, `2g`."""

    pattern = re.compile(r"[1-9][0-9]{0,8}[mg]")
    syntax = "memory is a whole number and m or g: 512m, 2g"
    examples: ClassVar[list[str]] = ["512m", "2g"]

    def __new__(cls, text: str) -> Self:
        written = super().__new__(cls, text)
        if not 512 << 20 <= written.bytes <= 1 << 40:  # below 450 MB Spark refuses to start
            raise ValueError("memory of a JVM here is 512m at least and 1024g at most")
        return written

    @property
    def bytes(self) -> int:
        """The size in bytes."""
        return int(self[:-1]) << (20 if self.endswith("m") else 30)


class ColumnName(Written):
    """The name of a column, as it is, without quotes."""

    pattern = re.compile(r"[^\x00-\x1f\x7f]{1,255}")
    syntax = "a column is its name, without quotes: 1 to 255 characters, no control characters"
    examples: ClassVar[list[str]] = ["dep_delay", "@timestamp"]


class StreamId(Written):
    """The stable id of a stream: it names the checkpoint, the Dag and the position in the table."""

    pattern = re.compile(r"[a-z][a-z0-9_-]{0,62}")
    syntax = "a stream's id is lower case letters, digits, _ and -, starts with a letter, at most 63 characters"
    examples: ClassVar[list[str]] = ["flights"]


class DriverName(Written):
    """The name of a driver: of its folder, its lease and its process."""

    pattern = StreamId.pattern
    syntax = "a driver's name is lower case letters, digits, _ and -, starts with a letter, at most 63 characters"
    examples: ClassVar[list[str]] = ["core"]


class Name(Written):
    """A name that SQL can use unquoted: of a source, a reference, a rule."""

    pattern = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,62}")
    syntax = "a name is letters, digits and _, and does not start with a digit"
    examples: ClassVar[list[str]] = ["flights"]


class PythonCallable(Written):
    """A Python callable, `package.module:function`."""

    pattern = re.compile(rf"{_IDENTIFIER}(\.{_IDENTIFIER})*:{_IDENTIFIER}")
    syntax = "a Python callable is package.module:function"
    examples: ClassVar[list[str]] = ["my_streams.clean:flights"]


class Topic(Written):
    """A Kafka topic."""

    pattern = re.compile(r"(?!\.{1,2}$)[A-Za-z0-9._-]{1,249}")
    syntax = "a topic is letters, digits, dots, _ and -, at most 249 characters, and not . or .. alone"
    examples: ClassVar[list[str]] = ["flights"]


class Brokers(Written):
    """Bootstrap servers, `host:port,host:port`, without user or password."""

    pattern = re.compile(r"[^\s,:/@]+:\d+(,[^\s,:/@]+:\d+)*")
    syntax = "bootstrap servers are host:port, several with commas between: broker-1:9092,broker-2:9092"
    examples: ClassVar[list[str]] = ["broker-1:9092,broker-2:9092"]


class SparkMaster(Written):
    """The master of a Spark standalone cluster; several with a standby master."""

    pattern = re.compile(r"spark://[^\s,:/@]+:\d+(,[^\s,:/@]+:\d+)*")
    syntax = "the master of a standalone cluster is spark://HOST:PORT, of several spark://HOST:PORT,HOST:PORT"
    examples: ClassVar[list[str]] = ["spark://spark-master:7077"]

    @property
    def places(self) -> list[tuple[str, int]]:
        """Host and port of each."""
        pairs = (address.rsplit(":", 1) for address in self.removeprefix("spark://").split(","))
        return [(host, int(port)) for host, port in pairs]


class SparkService(Written):
    """The address of a service of a standalone master: its REST gateway, or its page."""

    pattern = re.compile(r"https?://[^\s,:/@?#]+:\d+(/[^\s?#@]*)?")
    syntax = "the address of a service of the Spark master is http(s)://HOST:PORT, without a login"
    examples: ClassVar[list[str]] = ["http://spark-master:6066"]


class YarnQueue(Written):
    """A queue of YARN."""

    pattern = re.compile(r"[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*")
    syntax = "a queue of YARN is a name, or a path as root.streams: letters, digits, _ and -"
    examples: ClassVar[list[str]] = ["streams"]


class ResourceManagers(Written):
    """The web addresses of YARN's ResourceManagers."""

    pattern = re.compile(r"https?://[^\s,:/@?#]+:\d+(,https?://[^\s,:/@?#]+:\d+)*")
    syntax = "ResourceManagers are http(s)://HOST:PORT, with commas between them, without a login"
    examples: ClassVar[list[str]] = ["http://rm-one:8088,http://rm-two:8088"]


class KubernetesName(Written):
    """The name of an object of Kubernetes."""

    pattern = re.compile(r"[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?")
    syntax = "a name in Kubernetes is lower case letters, digits, - and ., and starts and ends with a letter or digit"
    examples: ClassVar[list[str]] = ["streams"]


class Namespace(Written):
    """A namespace of Kubernetes."""

    pattern = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?")
    syntax = "a namespace is lower case letters, digits and -, at most 63, and starts and ends with a letter or digit"
    examples: ClassVar[list[str]] = ["streams"]


class Image(Written):
    """A container image."""

    pattern = re.compile(r"[a-z0-9]([A-Za-z0-9._/:@-]{0,509}[A-Za-z0-9_])?")
    syntax = "an image is REGISTRY/NAME:TAG or REGISTRY/NAME@DIGEST, without blanks"
    examples: ClassVar[list[str]] = ["registry.example.com/lakeward:0.2.0"]


class MountPath(Written):
    """An absolute path in a container."""

    pattern = re.compile(r"/[A-Za-z0-9._/-]{1,254}")
    syntax = "a path in a container is absolute: letters, digits, ., _, - and /"
    examples: ClassVar[list[str]] = ["/etc/lakeward/kafka"]


class CatalogAddress(Written):
    """The address of a catalog's server."""

    pattern = re.compile(r"(https?|thrift)://[A-Za-z0-9.\-\[\]:]+(/[^\s?#@]*)?")
    syntax = "the address of a catalog is http(s)://HOST:PORT/PATH, without a login"
    examples: ClassVar[list[str]] = ["https://catalog.example.com/api/catalog"]


class ObjectPlace(Written):
    """A location on an object store: a bucket and folders."""

    pattern = re.compile(r"s3a?://[a-z0-9][a-z0-9.\-]{1,61}[a-z0-9](/[A-Za-z0-9!_.*'()\-]*[A-Za-z0-9!_*'()\-])*")
    syntax = "a place on an object store is s3://BUCKET/FOLDER, without a slash at its end"
    examples: ClassVar[list[str]] = ["s3://lake/warehouse"]

    @property
    def key(self) -> str:
        """The bucket and the folders."""
        return self.split("://", 1)[1]

    @property
    def iceberg(self) -> str:
        """The URL for Iceberg and PyIceberg."""
        return f"s3://{self.key}"

    @property
    def hadoop(self) -> str:
        """The URL for Spark's own readers and writers."""
        return f"s3a://{self.key}"


class KinesisStream(Written):
    """The name of a Kinesis data stream."""

    pattern = re.compile(r"[A-Za-z0-9_.\-]{1,128}")
    syntax = "a Kinesis stream's name has letters, digits, . _ and -, 128 at most; give the name, not the ARN"
    examples: ClassVar[list[str]] = ["clicks"]


class AwsRegion(Written):
    """A region of AWS."""

    pattern = re.compile(r"[a-z]{2,}(-[a-z]+)+-[0-9]+")
    syntax = "a region is written like eu-central-1"
    examples: ClassVar[list[str]] = ["eu-central-1"]


class StartingPosition(Written):
    """The starting position of a Kinesis stream."""

    pattern = re.compile(r"TRIM_HORIZON|LATEST|\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}Z")
    syntax = "TRIM_HORIZON, LATEST, or a time in UTC: 2026-11-01T00:00:00Z"
    examples: ClassVar[list[str]] = ["TRIM_HORIZON", "2026-11-01T00:00:00Z"]

    def __new__(cls, text: str) -> Self:
        written = super().__new__(cls, text)
        _ = written.moment_ms
        return written

    @property
    def moment_ms(self) -> int | None:
        """The time in milliseconds since 1970; None if it is not a time."""
        return int(datetime.fromisoformat(self).timestamp() * 1000) if self[0].isdigit() else None


class SparkKey(Written):
    """The name of a Spark setting."""

    pattern = re.compile(r"spark\.[A-Za-z0-9_.\-]+")
    syntax = "a Spark setting's name starts with spark. (spark.sql.shuffle.partitions)"
    examples: ClassVar[list[str]] = ["spark.sql.shuffle.partitions"]


class ExpectationType(Written):
    """An expectation of Great Expectations in snake case, or one of Lakeward (`custom_expectations`)."""

    pattern = re.compile(r"expect_[a-z0-9_]+|unexpected_rows_expectation")
    syntax = "an expectation's type is its snake case name in Great Expectations: expect_column_values_to_not_be_null"
    examples: ClassVar[list[str]] = ["expect_column_values_to_not_be_null"]


class Tag(Written):
    """A tag of a stream, at most as long as Airflow allows."""

    pattern = re.compile(r"[\s\S]{1,100}")
    syntax = "a tag is text of 1 to 100 characters"
    examples: ClassVar[list[str]] = ["core"]


def _cron(text: str) -> str:
    if len(text.split()) != 5 or not croniter.is_valid(text):
        raise ValueError('a schedule is five cron fields, for example "0 * * * *" for every full hour')
    return text


def _at_least(least: _Measured, what: str) -> Callable[[Any], Any]:
    def check(value: Any) -> Any:
        if value < least:
            raise ValueError(f"{what} here must be more than 0: {least} at least")
        return value

    return check


Cron = Annotated[str, AfterValidator(_cron), Field(examples=["0 * * * *"])]
"""Five cron fields, checked when the spec is read."""

Span = Annotated[Duration, AfterValidator(_at_least(Duration("1ms"), "a duration"))]
"""A duration above zero; Spark counts in milliseconds."""

Bytes = Annotated[Size, AfterValidator(_at_least(Size("1B"), "a size"))]
"""A size above zero."""
