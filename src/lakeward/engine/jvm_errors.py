"""Text of JVM errors: class and message of each throwable in the chain of causes, outermost first."""

from __future__ import annotations

from typing import Any


def of_throwable(throwable: Any) -> str:
    """One line for each throwable of a Java chain."""
    lines = []
    for _ in range(20):  # a chain of causes can be a circle
        if throwable is None:
            break
        message = str(throwable.getMessage() or "").strip()
        lines.append(f"{throwable.getClass().getName()}: {message.splitlines()[0] if message else ''}")
        throwable = throwable.getCause()
    return "\n".join(lines)


def of_error(error: BaseException) -> str:
    """The same for an exception that py4j or pyspark passed to Python; other exceptions in one line."""
    # py4j's own exceptions hold `java_exception`; those pyspark converted hold `_origin`.
    throwable = getattr(error, "java_exception", None) or getattr(error, "_origin", None)
    try:
        text = of_throwable(throwable) if throwable is not None else ""
    except Exception:  # noqa: BLE001  # the JVM may have died: the text of the Python exception is used
        text = ""
    return text or f"{type(error).__name__}: {error}"
