"""The base of everything a user writes: immutable, and every unknown key is refused."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, Any, ClassVar, cast

from pydantic import BaseModel, ConfigDict, Field, Strict, create_model


class KeysProblem(ValueError):
    """What keys of one mapping say together cannot be; without `keys` the rest of it may well be in order."""

    def __init__(self, message: str, *keys: str) -> None:
        super().__init__(message)
        self.keys = keys


class SpecModel(BaseModel):
    """Frozen, closed to unknown keys, readable by the key a user writes (the alias) and by the attribute's name.

    Reading is lax only where YAML leaves no doubt (a list becomes a tuple); numbers and booleans are strict, so that
    `cores: "2"` and `enabled: "no"` are problems and not surprises.
    """

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        validate_by_alias=True,
        validate_by_name=True,
        serialize_by_alias=True,
        validate_default=False,
        hide_input_in_errors=True,  # a value may be a secret somebody pasted; problems decide what is shown
        use_attribute_docstrings=True,  # the text below a field is its description in the generated schema
    )

    one_of: ClassVar[tuple[str, tuple[str, ...]]] = ("", ())
    """What this is called, and its keys of which exactly one is given."""
    removed: ClassVar[Mapping[str, str]] = {}
    """Keys that an earlier version had -> since when they are gone, and what to use. They are refused with that."""

    def document(self) -> dict[str, Any]:
        """The spec as plain JSON data with the keys a user writes; keys without a value are left out."""
        return self.model_dump(mode="json", by_alias=True, exclude_none=True)


Int = Annotated[int, Strict()]
PositiveInt = Annotated[int, Strict(), Field(gt=0, le=2**31 - 1)]
PositiveLong = Annotated[int, Strict(), Field(gt=0, le=2**63 - 1)]
Cores = Annotated[int, Strict(), Field(gt=0, le=1024)]
Bool = Annotated[bool, Strict()]
Text = Annotated[str, Field(min_length=1)]


def not_left_empty(data: Any, forms: Iterable[str]) -> Any:
    """The data, if the one form it names says something.

    Raises:
        ValueError: it stands there without a value, which YAML reads as if it were not there.
    """
    if isinstance(data, dict) and not any(data.get(form) is not None for form in forms):
        for form in forms:
            if form in data:
                raise ValueError(
                    f"{form} is empty; write what it needs below it, or {form}: {{}} when it needs nothing"
                )
    return data


def only_one(what: str, given: dict[str, object]) -> str:
    """The one key of `given` that has a value.

    Raises:
        ValueError: none or several have one. The loader turns it into a problem at the place of `what`.
    """
    chosen = [name for name, value in given.items() if value is not None]
    if not chosen:
        raise KeysProblem(f"{what} needs exactly one of: {', '.join(given)}", *given)
    if len(chosen) > 1:
        raise too_many(what, chosen, given)
    return chosen[0]


def too_many(what: str, chosen: Sequence[str], known: Iterable[str]) -> KeysProblem:
    """The problem of several keys where one may stand; the first is as good as any."""
    message = f"{what} has {' and '.join(chosen)}; it needs exactly one of: {', '.join(known)}"
    return KeysProblem(message, *chosen[1:])


def partial(
    model: type[BaseModel], name: str, *, without: frozenset[str] = frozenset(), whole: frozenset[str] = frozenset()
) -> type[SpecModel]:
    """`model` with every field optional, also in the models inside it: what a user may override of it.

    Fields in `without` are left out; those in `whole` are optional as a whole and complete when they are given.
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
        fields[key] = (kind | None, Field(default=None, alias=info.alias, description=info.description))
    made = create_model(name, __base__=SpecModel, __doc__=model.__doc__, **fields)
    return cast(type[SpecModel], made)
