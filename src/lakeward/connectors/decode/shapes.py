"""Values at any depth: the rules of single values, carried through structs, arrays and maps.

Every expression is flat: its depth grows with the nesting of the types, never with the number of columns.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from lakeward.connectors.decode.token import Token
from lakeward.connectors.decode.values import Rule, any_of, rule_of
from lakeward.spec.model.formats import Formats

if TYPE_CHECKING:
    from pyspark.sql import Column
    from pyspark.sql.types import DataType, StructType

Read = Callable[["Column"], Token]
"""From a text of the parser to the token that it was."""
SHOWN = 80
"""Characters of a value in a message."""


@dataclass(frozen=True)
class Shape:
    """How the values of one type are read strictly.

    Args:
        kind: a type of Spark.
        formats: the declared formats.
        read: makes a token of a text that the strict way parsed.
        plain: makes of such a text what lands where STRING is declared, and what a message shows.
    """

    kind: Any
    formats: Formats
    read: Read
    plain: Callable[[Column], Column]

    def of(self, kind: Any) -> Shape:
        """The same for a type inside this one."""
        return Shape(kind, self.formats, self.read, self.plain)

    @property
    def _nested(self) -> str | None:
        name = self.kind.typeName()
        return name if name in ("struct", "array", "map") else None

    @property
    def rule(self) -> Rule:
        """The rule of a type that is not nested."""
        return rule_of(self.kind, self.formats)

    def texts(self) -> DataType:
        """The same shape with STRING wherever a single value is."""
        from pyspark.sql.types import ArrayType, MapType, StringType, StructField, StructType

        match self._nested:
            case "struct":
                return StructType([StructField(f.name, self.of(f.dataType).texts()) for f in self.kind.fields])
            case "array":
                return ArrayType(self.of(self.kind.elementType).texts())
            case "map":
                return MapType(self.kind.keyType, self.of(self.kind.valueType).texts())
            case _:
                return StringType()

    def value(self, text: Column) -> Column:
        """What the parser read as texts, in the declared type; a value that does not fit is null."""
        from pyspark.sql import functions as F

        match self._nested:
            case "struct":
                return F.when(text.isNotNull(), self._made_by_type(text))
            case "array":
                return F.transform(text, self.of(self.kind.elementType).value)
            case "map":
                return F.transform_values(text, lambda _, each: self.of(self.kind.valueType).value(each))
            case _:
                return self._strictly(self.rule, text)

    def _strictly(self, rule: Rule, text: Column) -> Column:
        return self.plain(text) if rule.kind.typeName() == "string" else rule.value(self.read(text))

    def _made_by_type(self, text: Column) -> Column:
        """A struct whose fields of one type are computed by one expression: a thousand columns need no thousand."""
        from pyspark.sql import functions as F

        groups = self._groups()
        made = [
            F.transform(F.array(*(text[name] for name in names)), self.of(kind).value).alias(f"g{number}")
            for number, (kind, names) in enumerate(groups)
        ]
        places = {name: (f"g{n}", at) for n, (_, names) in enumerate(groups) for at, name in enumerate(names)}

        def together(found: Column) -> Column:
            at = [(name, *places[name]) for name in self.kind.fieldNames()]
            return F.struct(*(found[group][index].alias(name) for name, group, index in at))

        return let(F.struct(*made), together)

    def _groups(self) -> list[tuple[Any, list[str]]]:
        """The types of a struct's fields, each with the names of its fields."""
        groups: dict[str, tuple[Any, list[str]]] = {}
        for field in self.kind.fields:
            groups.setdefault(field.dataType.json(), (field.dataType, []))[1].append(field.name)
        return list(groups.values())

    def unfit(self, text: Column, value: Column) -> Column:
        """Whether a value that was sent is lost in `value`, or a required one is missing."""
        from pyspark.sql import functions as F

        match self._nested:
            case "struct":
                return any_of([*self._groups_unfit(text, value), *self._missing(text)])
            case "array":
                inner = self.of(self.kind.elementType)
                return F.coalesce(F.exists(F.zip_with(text, value, inner.unfit), lambda each: each), F.lit(False))
            case "map":
                inner, keys = self.of(self.kind.valueType), F.map_keys(text)
                lost = F.exists(F.zip_with(F.map_values(text), F.map_values(value), inner.unfit), lambda each: each)
                return F.coalesce(lost | (F.size(keys) != F.size(F.array_distinct(keys))), F.lit(False))
            case _:
                return text.isNotNull() & value.isNull()

    def _groups_unfit(self, text: Column, value: Column) -> Iterator[Column]:
        from pyspark.sql import functions as F

        for kind, names in self._groups():
            sent, made = F.array(*(text[name] for name in names)), F.array(*(value[name] for name in names))
            yield F.exists(F.zip_with(sent, made, self.of(kind).unfit), lambda each: each)

    def _missing(self, text: Column) -> list[Column]:
        """Whether a required field of a struct has no value."""
        from pyspark.sql import functions as F

        required = [f.name for f in self.kind.fields if not f.nullable]
        found = F.array(*(text[name].isNull() for name in required))
        return [text.isNotNull() & F.exists(found, lambda each: each)] if required else []

    def problems(self, text: Column, path: Column) -> Column:
        """The problems of a value, each with its path in the JSON: an array of texts. For `explain` only."""
        from pyspark.sql import functions as F

        match self._nested:
            case "struct":
                found = F.flatten(F.array(*(self._group_problems(*group, text, path) for group in self._groups())))
            case "array":
                inner = self.of(self.kind.elementType)
                each = F.transform(
                    text, lambda one, at: inner.problems(one, F.concat(path, F.lit("["), at.cast("string"), F.lit("]")))
                )
                found = F.flatten(each)
            case "map":
                found = self._map_problems(text, path)
            case _:
                found = self._leaf_problems(text, path)
        return F.coalesce(F.when(text.isNotNull(), found), _none())

    def _group_problems(self, kind: Any, names: list[str], text: Column, path: Column) -> Column:
        from pyspark.sql import functions as F

        required = {f.name for f in self.kind.fields if not f.nullable}
        fields = [
            F.struct(F.lit(name).alias("name"), F.lit(name in required).alias("required"), text[name].alias("value"))
            for name in names
        ]

        def of(each: Column) -> Column:
            at = F.concat_ws(".", path, each["name"])
            missing = F.array(F.concat(at, F.lit(": required, but missing or null")))
            other = self.of(kind).problems(each["value"], at)
            return F.when(each["required"] & each["value"].isNull(), missing).otherwise(other)

        return F.flatten(F.transform(F.array(*fields), of))

    def _map_problems(self, text: Column, path: Column) -> Column:
        from pyspark.sql import functions as F

        inner, keys = self.of(self.kind.valueType), F.map_keys(text)
        each = F.transform(
            F.map_entries(text),
            lambda one: inner.problems(one["value"], F.concat(path, F.lit("["), one["key"], F.lit("]"))),
        )
        twice = F.array(F.concat(path, F.lit(": a key of this MAP occurs twice")))
        return F.when(F.size(keys) != F.size(F.array_distinct(keys)), twice).otherwise(F.flatten(each))

    def _leaf_problems(self, text: Column, path: Column) -> Column:
        from pyspark.sql import functions as F

        rule, token = self.rule, self.read(text)
        shown = F.substring(self.plain(text), 1, SHOWN)
        sent = F.when(token.literal | text.rlike(r"^[\[{]"), shown).otherwise(F.concat(F.lit('"'), shown, F.lit('"')))
        said = F.concat(path, F.lit(f": not {rule.said}: "), sent)
        would = rule.would_be(token)
        infinite = would.isin("Infinity", "-Infinity") & token.literal
        words = (
            F.when(infinite, F.concat(path, F.lit(f": number too large for {rule.said}: "), sent))
            .when(would != token.text, F.concat(said, F.lit(", it would become "), would))
            .otherwise(said)
        )
        return F.when(self._strictly(rule, text).isNull(), F.array(words)).otherwise(_none())


def let(value: Column, body: Callable[[Column], Column]) -> Column:
    """`body` of a value that is computed once."""
    from pyspark.sql import functions as F

    return F.transform(F.array(value), body)[0]


def _none() -> Column:
    from pyspark.sql import functions as F

    return F.array().cast("array<string>")


def containers(schema: StructType, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    """The nested values of a record that have a name in it, the innermost first: path and type."""
    for field in schema.fields:
        at, kind = (*path, field.name), field.dataType
        if kind.typeName() == "struct":
            yield from containers(cast("StructType", kind), at)
        if kind.typeName() in ("struct", "array", "map"):
            yield at, kind
