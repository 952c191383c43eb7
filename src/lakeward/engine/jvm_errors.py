"""Text of JVM errors: class and message of each throwable in the chain of causes, outermost first."""

from __future__ import annotations

from typing import Any

_LONGEST = 20  # a chain of causes can be a circle


def of_throwable(throwable: Any) -> str:
    """One line for each throwable of a Java chain."""
    lines = []
    for each in _causes(throwable):
        message = str(each.getMessage() or "").strip()
        lines.append(f"{each.getClass().getName()}: {message.splitlines()[0] if message else ''}")
    return "\n".join(lines)


def chain(error: BaseException) -> list[Any]:
    """The Java throwables of an exception, outermost first; none for a Python exception, or after the JVM's death."""
    try:
        return _causes(_origin(error))
    except Exception:  # noqa: BLE001  # the JVM may have died
        return []


def _causes(throwable: Any) -> list[Any]:
    found: list[Any] = []
    while throwable is not None and len(found) < _LONGEST:
        found.append(throwable)
        throwable = throwable.getCause()
    return found


def _origin(error: BaseException) -> Any:
    # py4j's own exceptions hold `java_exception`; those pyspark converted hold `_origin`.
    return getattr(error, "java_exception", None) or getattr(error, "_origin", None)


def of_error(error: BaseException) -> str:
    """The same for an exception that py4j or pyspark passed to Python; other exceptions in one line."""
    throwable = _origin(error)
    try:
        text = of_throwable(throwable) if throwable is not None else ""
    except Exception:  # noqa: BLE001  # the JVM may have died: the text of the Python exception is used
        text = ""
    return text or f"{type(error).__name__}: {error}"
