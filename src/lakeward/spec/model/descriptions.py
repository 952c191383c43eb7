"""Descriptions of spec keys: the docstrings below the fields of the models, read from the source on demand.

Pydantic's `use_attribute_docstrings` reads them while each class is made: 0.5 CPU-s and more in an Airflow process,
in every task. Descriptions are needed for the JSON Schemas, the reference and the text of some errors only.
"""

from __future__ import annotations

import ast
import inspect
import sys
from collections.abc import Mapping
from functools import cache
from itertools import pairwise

from pydantic import BaseModel


@cache
def descriptions(model: type[BaseModel]) -> Mapping[str, str]:
    """Field name -> description of `model` and the models it inherits from; fields without a docstring are absent.

    Empty if the source is not installed, for example only bytecode: a description never turns one error into another.
    """
    described: dict[str, str] = {}
    for base in reversed(model.__mro__):
        if issubclass(base, BaseModel) and base is not BaseModel:
            described |= _of_class(vars(base).get("described_by") or base)
    return {name: text for name, text in described.items() if name in model.model_fields}


def _of_class(model: type[BaseModel]) -> Mapping[str, str]:
    return _of_module(model.__module__).get(model.__qualname__, {})


@cache
def _of_module(name: str) -> Mapping[str, Mapping[str, str]]:
    """Qualified class name -> field name -> docstring below the field."""
    classes: dict[str, dict[str, str]] = {}

    def visit(body: list[ast.stmt], prefix: str) -> None:
        for statement in body:
            if isinstance(statement, ast.ClassDef):
                qualified = f"{prefix}{statement.name}"
                classes[qualified] = _fields(statement.body)
                visit(statement.body, f"{qualified}.")

    try:
        source = inspect.getsource(sys.modules[name])
    except OSError:
        return {}
    visit(ast.parse(source).body, "")
    return classes


def _fields(body: list[ast.stmt]) -> dict[str, str]:
    texts: dict[str, str] = {}
    for field, below in pairwise(body):
        if not (isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name)):
            continue
        if isinstance(below, ast.Expr) and isinstance(below.value, ast.Constant) and isinstance(below.value.value, str):
            texts[field.target.id] = inspect.cleandoc(below.value.value)
    return texts
