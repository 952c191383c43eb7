"""Jar verification: a jar runs only if its SHA-256 is listed in `jars.sha256`, in the form of `sha256sum`."""

from __future__ import annotations

import hashlib
from pathlib import Path

from lakeward.jars import fitting
from lakeward.platform.errors import Refused

LIST = Path(__file__).with_name("jars.sha256")


def listed() -> dict[str, str]:
    """File name relative to the jars' folder (`spark/x.jar`) -> SHA-256 in hex."""
    pairs = (line.split(maxsplit=1) for line in LIST.read_text().splitlines() if line.strip())
    return {name.strip().removeprefix("*"): digest for digest, name in pairs}


def missing(folder: Path) -> list[str]:
    """The listed jars that are not in `folder`."""
    return [name for name in listed() if not (folder / name).is_file()]


def verify(folder: Path) -> int:
    """Compare every listed jar with its digest, and refuse a jar nobody listed. Returns how many were compared.

    Raises:
        Refused: a jar is missing, is not the one listed, or is not listed at all; named, with expected and found.
        SpecError: one of Spark's was built for another Spark or Scala than the one that is installed.
    """
    expected = listed()
    # Said first: whoever put another one in place of ours is told more by this than by what is missing then.
    fitting.check(sorted((folder / "spark").glob("*.jar")), {name.rpartition("/")[2] for name in expected})
    for name, digest in expected.items():
        file = folder / name
        if not file.is_file():
            raise Refused(
                "A jar is missing",
                why=f"{file} is listed in {LIST.name}",
                next="python -m lakeward.jars",
                code="LW-7202",
            )
        found = digest_of(file)
        if found != digest:
            raise Refused(
                f"The jar {file.name} is not the one that was reviewed",
                why=f"{file}: expected SHA-256 {digest}, found {found}",
                next=f"rm {file} && python -m lakeward.jars   (and find out who changed it)",
                code="LW-7203",
            )
    strangers = sorted(set(names(folder)) - set(expected))
    if strangers:
        raise Refused(
            f"The jar {strangers[0]} was never reviewed",
            why=f"{folder / strangers[0]} is not listed in {LIST.name} and would be on the classpath",
            next=f"rm {folder / strangers[0]}",
            code="LW-7201",
        )
    return len(expected)


def names(folder: Path) -> list[str]:
    """The jars in `folder`, named as in the list."""
    return sorted(jar.relative_to(folder).as_posix() for jar in folder.glob("*/*.jar"))


def other_than_jars(folder: Path) -> Path | None:
    """Something in `folder` that is no jar of one of the sets; None where there is nothing, or no such folder."""
    sets = {name.split("/")[0] for name in listed()}
    for item in sorted(folder.iterdir()) if folder.exists() else ():
        if item.name not in sets or not item.is_dir():
            return item
        inside = next((each for each in item.iterdir() if each.suffix != ".jar" or each.is_dir()), None)
        if inside is not None:
            return inside
    return None


def digest_of(file: Path) -> str:
    """SHA-256 of a file in hex."""
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()
