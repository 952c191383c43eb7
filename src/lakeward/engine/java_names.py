"""Names of Java packages and classes, as Python uses them: the JVM resolves each one once."""

from __future__ import annotations

from typing import Any


def remember() -> None:
    """Keep what the JVM said of a name, for every later use of it in this process.

    Py4J asks the JVM at each use of a name. For `jvm.org` the JVM looks for a class of that name, and below each of its
    ten imports, in every jar of the class path: milliseconds of its CPU each time.
    """
    from py4j.java_gateway import JavaPackage, JVMView

    for kind in (JVMView, JavaPackage):
        if not hasattr(kind, "_lakeward_resolve"):
            kind._lakeward_resolve = kind.__getattr__
            kind.__getattr__ = _resolve_once


def _resolve_once(holder: Any, name: str) -> Any:
    """As `__getattr__` of Py4J. An attribute that is found on the object itself never comes here again."""
    from py4j.java_gateway import JavaClass, JavaPackage

    found = holder._lakeward_resolve(name)
    # Py4J calls every unknown name a package. A class may come with a jar later: its name is asked for again.
    if isinstance(found, JavaClass) or (isinstance(found, JavaPackage) and not name[:1].isupper()):
        holder.__dict__[name] = found
    return found
