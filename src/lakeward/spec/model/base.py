"""The base of everything a user writes: immutable, and every unknown key is refused."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, Any, ClassVar, cast

from pydantic import BaseModel, ConfigDict, Field, GetJsonSchemaHandler, Strict, create_model
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema

from lakeward.spec.model.descriptions import descriptions
from lakeward.spec.model.unsupported import supported_keys


class KeysProblem(ValueError):
    """Raised when keys of one mapping contradict each other; without `keys` the rest of the mapping may be valid."""

    def __init__(self, message: str, *keys: str) -> None:
        super().__init__(message)
        self.keys = keys


class SpecModel(BaseModel):
    """Frozen, closed to unknown keys, readable by the key a user writes (the alias) and by the attribute's name.

    Validation is lax only where YAML is unambiguous (a list becomes a tuple). Numbers and booleans are strict:
    `cores: "2"` and `enabled: "no"` are problems.
    """

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        validate_by_alias=True,
        validate_by_name=True,
        serialize_by_alias=True,
        validate_default=False,
        hide_input_in_errors=True,  # a value may be a pasted secret; `problems` decides what is shown
        defer_build=True,  # a process that imports a model need not make it: contracts/test_import_cost.py
    )

    one_of: ClassVar[tuple[str, tuple[str, ...]]] = ("", ())
    """The name of this choice, and its keys, of which exactly one must be given."""
    removed: ClassVar[Mapping[str, str]] = {}
    """Keys of earlier versions -> the version that removed them, and the replacement, for the error."""
    described_by: ClassVar[type[BaseModel] | None] = None
    """Of a model made by `partial`: the class whose docstrings describe the fields."""

    @classmethod
    def __get_pydantic_json_schema__(cls, core_schema: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        """The JSON Schema of the model, with the docstring below each field as its description."""
        schema = handler(core_schema)
        properties = handler.resolve_ref_schema(schema).get("properties", {})
        for name, text in descriptions(cls).items():
            key = cls.model_fields[name].alias or name
            if key in properties:  # not of a field that only the loader sets
                properties[key]["description"] = text
        return schema

    def document(self) -> dict[str, Any]:
        """The spec as plain JSON data with the keys a user writes; keys without a value are omitted."""
        return self.model_dump(mode="json", by_alias=True, exclude_none=True)


Int = Annotated[int, Strict()]
PositiveInt = Annotated[int, Strict(), Field(gt=0, le=2**31 - 1)]
PositiveLong = Annotated[int, Strict(), Field(gt=0, le=2**63 - 1)]
Cores = Annotated[int, Strict(), Field(gt=0, le=1024)]
Bool = Annotated[bool, Strict()]
Text = Annotated[str, Field(min_length=1)]


def not_left_empty(data: Any, forms: Iterable[str]) -> Any:
    """The data, if its one form has a value.

    Raises:
        ValueError: the key has no value; YAML reads it like a missing key.
    """
    if isinstance(data, dict) and not any(data.get(form) is not None for form in forms):
        for form in forms:
            if form in data:
                raise ValueError(
                    f"{form} is empty; write what it needs below it, or {form}: {{}} when it needs nothing"
                )
    return data


def only_one(model: type[SpecModel], given: dict[str, object]) -> str:
    """The one key of `given` that has a value.

    Raises:
        ValueError: no key has one, or several. The loader reports it at the position of the model.
    """
    chosen = [name for name, value in given.items() if value is not None]
    if not chosen:
        raise KeysProblem(f"{model.one_of[0]} needs exactly one of: {_offered(model, given)}", *given)
    if len(chosen) > 1:
        raise too_many(model, chosen, given)
    return chosen[0]


def too_many(model: type[SpecModel], chosen: Sequence[str], known: Iterable[str]) -> KeysProblem:
    """The error for several keys where one is allowed."""
    message = f"{model.one_of[0]} has {' and '.join(chosen)}; it needs exactly one of: {_offered(model, known)}"
    return KeysProblem(message, *chosen[1:])


def _offered(model: type[SpecModel], keys: Iterable[str]) -> str:
    return ", ".join(supported_keys(written(model).__name__, keys))


def written(model: type[BaseModel]) -> type[BaseModel]:
    """The class as it is declared: `model`, or what `partial` made it from."""
    return getattr(model, "described_by", None) or model


def partial(
    model: type[BaseModel], name: str, *, without: frozenset[str] = frozenset(), whole: frozenset[str] = frozenset()
) -> type[SpecModel]:
    """`model` with every field optional, also in nested models: the form in which users override it.

    Fields in `without` are omitted. Fields in `whole` are optional, but complete when given.
    """
    fields: dict[str, Any] = {}
    for key, info in model.model_fields.items():
        if key in without:
            continue
        kind: Any = info.annotation
        if key not in whole and isinstance(kind, type) and issubclass(kind, SpecModel):
            kind = partial(kind, kind.__name__ + "Override")
        elif info.metadata:
            kind = Annotated[kind, *info.metadata]
        fields[key] = (kind | None, Field(default=None, alias=info.alias))
    made = cast(type[SpecModel], create_model(name, __base__=SpecModel, __doc__=model.__doc__, **fields))
    made.described_by = model
    return made
