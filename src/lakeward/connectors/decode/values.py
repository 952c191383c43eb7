"""Rules of single values: which text is which value of a type, exactly. For every decoder; one class for each type.

`value` reads a text strictly: null is refused. `quick` is a cheaper way for files of texts, null where `value` decides.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from lakeward.connectors.decode import reader
from lakeward.connectors.decode.token import Token
from lakeward.spec.model.formats import Formats

if TYPE_CHECKING:
    from pyspark.sql import Column

_WHOLE = r"^[+-]?[0-9]+$"
_NUMBER = r"^[+-]?([0-9]++\.?+[0-9]*+|\.[0-9]++)([eE][+-]?[0-9]++)?$"
"""Possessive: a text of a million digits and a letter would take Java a million times as long."""
_NAMED = r"^([+-]?[Ii]nf(inity)?|NaN)$"
_DECIMAL = r"^[+-]?([0-9]++\.?+[0-9]*+|\.[0-9]++)([eE][+-]?[0-9]{1,4})?$"
_LONGEST = 400
"""Characters of a number that is compared digit by digit: Java's decimals take a time that grows with their square."""
_BASE64 = r"^([A-Za-z0-9+/]{4})*([A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$"
_DAY = r"(?!0000)[0-9]{4}-[0-9]{2}-[0-9]{2}"
_TIME = r"[0-9]{2}:[0-9]{2}(:[0-9]{2}(\.[0-9]{1,6}0*)?)?"
_ZONE = r"(Z| ?UTC|[+-][0-9]{2}(:?[0-9]{2})?)"
_BARE = rf"^{_DAY}[T ]{_TIME}$"
_ZONED = rf"^{_DAY}[T ]{_TIME}{_ZONE}$"
_UTC_SHAPE = r"^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]{1,6})?Z$"
_EXACT = {"double": 2.0**53, "float": 2.0**24}
"""Up to here each whole number is one of the type."""
_DIGITS = {"double": 17, "float": 9}
_SECONDS_MAX = 253402300799  # 9999-12-31T23:59:59Z
_SECONDS_MIN = -62135596800  # 0001-01-01T00:00:00Z
_SECONDS_NOW = (10**9, 10**10)
"""As milliseconds these are days of 1970; as seconds 2001 to 2286: refused where milliseconds are declared."""


class Rule:
    """Any type without a class of its own: whole numbers, which Spark's parser reads exactly."""

    def __init__(self, kind: Any, formats: Formats) -> None:
        self.kind, self.formats = kind, formats

    def value(self, token: Token) -> Column:
        """The value, null if the text is not exactly one."""
        from pyspark.sql import functions as F

        return F.when(token.literal & token.text.rlike(_WHOLE), token.text.try_cast(self.kind))

    def would_be(self, token: Token) -> Column:
        """The text of the value that a lenient cast makes of a refused one, null if none: for the message."""
        return token.text.try_cast(self.kind).cast("string")

    def quick(self, text: Column) -> Column:
        """The value of a text in a file of texts, null where `value` is to decide: exact, and cheap in each row."""
        from pyspark.sql import functions as F

        return F.when(text.rlike(self.simple), text.try_cast(self.kind))

    @property
    def simple(self) -> str:
        """Texts of which a plain cast makes exactly the value, or null."""
        return r"^-?[0-9]+$"

    @property
    def said(self) -> str:
        """The type in a message."""
        return str(self.kind.simpleString().upper())


class Text(Rule):
    """STRING: any value. A number keeps its text, an object its JSON."""

    def value(self, token: Token) -> Column:
        return token.text

    def quick(self, text: Column) -> Column:
        return text


class Truth(Rule):
    """BOOLEAN: `true` and `false`."""

    def value(self, token: Token) -> Column:
        from pyspark.sql import functions as F

        return F.when(token.literal & F.lower(token.text).isin("true", "false"), token.text.try_cast("boolean"))

    @property
    def simple(self) -> str:
        return "^(true|false)$"


class Binary(Rule):
    """BINARY: base64 without line breaks."""

    def value(self, token: Token) -> Column:
        from pyspark.sql import functions as F

        if self.formats.binary == "utf8":
            return token.text.cast("binary")
        found = F.try_to_binary(token.text, F.lit("base64"))
        return F.when(token.string & token.text.rlike(_BASE64) & (F.base64(found) == token.text), found)

    def quick(self, text: Column) -> Column:
        return text.cast("binary")

    def would_be(self, token: Token) -> Column:
        from pyspark.sql import functions as F

        return F.lit(None).cast("string")


class Decimal(Rule):
    """DECIMAL: the exact value, or none."""

    def value(self, token: Token) -> Column:
        from pyspark.sql import functions as F

        text, scale = self._bounded(token.text), self.kind.scale
        allowed = {"text": token.string, "number": token.literal}.get(self.formats.decimals or "", F.lit(True))
        digits = F.regexp_replace(text, F.lit(r"^[+-]|\.|[eE].*$"), F.lit(""))
        fraction = F.length(F.regexp_extract(text, r"\.([0-9]*)", 1))
        exponent = F.coalesce(F.regexp_extract(text, r"[eE](.*)$", 1).try_cast("int"), F.lit(0))
        zeros = F.length(digits) - F.length(F.rtrim(digits, F.lit("0")))
        fits = (zeros == F.length(digits)) | (fraction - exponent - zeros <= F.lit(scale))
        plain = text.rlike(rf"^-?[0-9]+(\.[0-9]{{0,{scale}}}0*)?$")
        return F.when(allowed & (plain | (text.rlike(_DECIMAL) & fits)), text.try_cast(self.kind))

    def would_be(self, token: Token) -> Column:
        return self._bounded(token.text).try_cast(self.kind).cast("string")

    def _bounded(self, text: Column) -> Column:
        from pyspark.sql import functions as F

        return F.when(F.length(text) <= F.lit(_LONGEST), text)

    @property
    def simple(self) -> str:
        return rf"^-?[0-9]{{1,38}}(\.[0-9]{{1,{self.kind.scale}}})?$" if self.kind.scale else r"^-?[0-9]{1,38}$"


class Binary64(Rule):
    """DOUBLE and FLOAT: a fraction is the nearest value, a whole number exact; neither infinite nor lost as zero."""

    def _read(self, text: Column) -> Column:
        return text.try_cast("double").cast(self.kind)

    def value(self, token: Token) -> Column:
        from pyspark.sql import functions as F

        text, read = token.text, self._read(token.text)
        short = F.length(text) <= F.lit(_LONGEST)
        wide = read.cast("double")
        sent, decoded = text.try_cast("decimal(38,8)"), read.cast("string").try_cast("decimal(38,8)")
        # A whole number has at most 53 bits of its own: both halves by 2^32 are exact.
        high = F.floor(wide / F.lit(2.0**32))
        low = wide - high.cast("double") * F.lit(2.0**32)
        exact = high.cast("decimal(20,0)") * F.lit(2**32).cast("decimal(10,0)") + low.cast("decimal(10,0)")
        digits = F.length(F.regexp_replace(text, F.lit(r"[-+.]|[eE].*$|0+\.?0*([eE].*)?$|^[+-]?0+\.?0*"), F.lit("")))
        fits = (
            F.when(wide == F.lit(0.0), text.rlike(r"^[+-]?[0.]+([eE].*)?$"))
            .when(F.abs(wide) < F.lit(_EXACT[self.kind.typeName()]), F.lit(True))
            .when(F.abs(wide) < F.lit(2.0**95), short & ((sent == decoded) | (sent == exact)))
            .otherwise(short & (F.abs(wide) != F.lit(float("inf"))) & (digits <= F.lit(_DIGITS[self.kind.typeName()])))
        )
        names = token.string & text.rlike(_NAMED)  # only where a text may be a number: in CSV
        return F.when(token.literal & ((text.rlike(_NUMBER) & fits) | names), read)

    def would_be(self, token: Token) -> Column:
        return self._read(token.text).cast("string")

    def quick(self, text: Column) -> Column:
        from pyspark.sql import functions as F

        return F.when(text.rlike(self.simple), self._read(text))

    @property
    def simple(self) -> str:
        return r"^-?[0-9]{1,7}(\.[0-9]{1,15})?$"


class Date(Rule):
    """DATE: `yyyy-MM-dd`, or the declared pattern."""

    def _parsed(self, text: Column) -> Column:
        from pyspark.sql import functions as F

        if self.formats.dates == "iso":
            return F.when(text.rlike(rf"^{_DAY}$"), text.try_cast("date"))
        micros = F.unix_micros(_by_pattern(text, self.formats.dates))  # a cast to DATE depends on the session's zone
        return F.date_from_unix_date(F.floor(micros / F.lit(86400 * 10**6)).cast("int"))

    def value(self, token: Token) -> Column:
        return self._parsed(token.text)

    def quick(self, text: Column) -> Column:
        return self._parsed(text)


class Timestamp(Date):
    """TIMESTAMP: an instant. Without a zone it is in UTC, whatever the session's zone, unless that is refused."""

    def _parsed(self, text: Column) -> Column:
        from pyspark.sql import functions as F

        how = self.formats.timestamps
        if how in ("epoch_s", "epoch_ms"):
            return _epoch(text, milliseconds=how == "epoch_ms")
        if how != "iso":
            return _by_pattern(text, how)
        zoned = F.when(text.rlike(_UTC_SHAPE) & ~text.startswith("0000"), text.try_cast("timestamp"))
        zoned = zoned.when(text.rlike(_ZONED), _in_years(_with_seconds(text).try_cast("timestamp")))
        if self.formats.without_zone == "refuse":
            return zoned
        return zoned.when(text.rlike(_BARE), F.concat(_with_seconds(text), F.lit("Z")).try_cast("timestamp"))

    def would_be(self, token: Token) -> Column:
        from pyspark.sql import functions as F

        return F.lit(None).cast("string")  # a time of day would become one of today: no words for a message


class LocalTime(Timestamp):
    """TIMESTAMP_NTZ: day and time without a zone."""

    def _parsed(self, text: Column) -> Column:
        from pyspark.sql import functions as F

        if self.formats.timestamps not in ("iso", "epoch_s", "epoch_ms"):
            since = F.unix_micros(_by_pattern(text, self.formats.timestamps)).cast("decimal(24,6)") / F.lit(10**6)
            epoch = F.lit("1970-01-01 00:00:00").cast(self.kind)
            return epoch + F.make_dt_interval(secs=since.cast("decimal(18,6)"))
        return F.when(text.rlike(_BARE), _with_seconds(text).try_cast(self.kind))


def rule_of(kind: Any, formats: Formats) -> Rule:
    """The rule of a type that is not nested."""
    return _RULES.get(kind.typeName().split("(")[0], Rule)(kind, formats)


_RULES: dict[str, type[Rule]] = {
    "string": Text,
    "boolean": Truth,
    "binary": Binary,
    "decimal": Decimal,
    "double": Binary64,
    "float": Binary64,
    "date": Date,
    "timestamp": Timestamp,
    "timestamp_ntz": LocalTime,
}


def any_of(conditions: Sequence[Column]) -> Column:
    """Whether one of them holds. Flat: its depth does not grow with their number, and null counts as false."""
    from pyspark.sql import functions as F

    if not conditions:
        return F.lit(False)
    return F.coalesce(F.greatest(*conditions, F.lit(False)), F.lit(False))


def _with_seconds(text: Column) -> Column:
    from pyspark.sql import functions as F

    return F.regexp_replace(text, F.lit(r"^(.{16})(?!:)"), F.lit("$1:00"))


def _in_years(instant: Column) -> Column:
    """The instant, or null outside the years 1 to 9999: a zone can lead out of them."""
    from pyspark.sql import functions as F

    micros = F.unix_micros(instant)
    fits = (micros >= F.lit(_SECONDS_MIN * 10**6)) & (micros < F.lit((_SECONDS_MAX + 1) * 10**6))
    return F.when(fits, instant)


def _by_pattern(text: Column, pattern: str) -> Column:
    """An instant by a pattern of Spark; a pattern without a zone means UTC, in every session."""
    from pyspark.sql import functions as F

    return F.timestamp_micros(reader.by_pattern(text, pattern))


def _epoch(text: Column, *, milliseconds: bool) -> Column:
    from pyspark.sql import functions as F

    shape, unit = (
        (r"^-?[0-9]{1,15}(\.[0-9]{1,3}0*)?$", 1000) if milliseconds else (r"^-?[0-9]{1,12}(\.[0-9]{1,6}0*)?$", 1)
    )
    number = F.when(text.rlike(shape), text.try_cast("decimal(24,6)"))
    micros = (number * F.lit(10**6 // unit)).cast("bigint")
    seconds = number / F.lit(unit)
    fits = (seconds >= F.lit(_SECONDS_MIN)) & (seconds < F.lit(_SECONDS_MAX + 1))
    if milliseconds:
        fits = fits & ~((F.abs(number) >= F.lit(_SECONDS_NOW[0])) & (F.abs(number) < F.lit(_SECONDS_NOW[1])))
    return F.when(fits, F.timestamp_micros(micros))
