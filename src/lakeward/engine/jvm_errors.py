"""What the JVM said when something failed: class and message of everything in the chain, outermost first."""

from __future__ import annotations

from typing import Any


def of_throwable(throwable: Any) -> str:
    """One line for each throwable of a Java chain."""
    lines = []
    for _ in range(20):  # causes can point at themselves
        if throwable is None:
            break
        said = str(throwable.getMessage() or "").strip()
        lines.append(f"{throwable.getClass().getName()}: {said.splitlines()[0] if said else ''}")
        throwable = throwable.getCause()
    return "\n".join(lines)


def of_error(error: BaseException) -> str:
    """The same of an exception that crossed into Python; a Python exception in one line."""
    # py4j's own exceptions hold `java_exception`; those pyspark converted hold `_origin`.
    throwable = getattr(error, "java_exception", None) or getattr(error, "_origin", None)
    try:
        found = of_throwable(throwable) if throwable is not None else ""
    except Exception:  # noqa: BLE001  # the JVM may be gone by now: its own words must do
        found = ""
    return found or f"{type(error).__name__}: {error}"
