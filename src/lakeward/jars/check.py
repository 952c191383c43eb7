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
    """Compare every listed jar with its digest, and refuse unlisted jars. Returns the number of jars.

    Raises:
        Refused: a jar is missing, has another digest, or is not listed.
        SpecError: a Spark jar was built for another Spark or Scala than the installed one.
    """
    expected = listed()
    # Checked first: for a replaced jar this error says more than the missing file.
    fitting.check(sorted((folder / "spark").glob("*.jar")), {name.rpartition("/")[2] for name in expected})
    for name, digest in expected.items():
        file = folder / name
        if not file.is_file():
            raise Refused(
                "A jar is missing",
                why=f"{file} does not exist and is listed in {LIST.name}",
                next="python -m lakeward.jars",
                code="LW-7202",
            )
        actual = digest_of(file)
        if actual != digest:
            raise Refused(
                f"The jar {file.name} is not the reviewed one",
                why=f"{file}: expected SHA-256 {digest}, found {actual}",
                next=f"rm {file} && python -m lakeward.jars   (and find out who changed it)",
                code="LW-7203",
            )
    unlisted = sorted(set(names(folder)) - set(expected))
    if unlisted:
        raise Refused(
            f"The jar {unlisted[0]} was never reviewed",
            why=f"{folder / unlisted[0]} is not listed in {LIST.name} and would be on the classpath",
            next=f"rm {folder / unlisted[0]}",
            code="LW-7201",
        )
    return len(expected)


def names(folder: Path) -> list[str]:
    """The jars in `folder`, named as in the list."""
    return sorted(jar.relative_to(folder).as_posix() for jar in folder.glob("*/*.jar"))


def other_than_jars(folder: Path) -> Path | None:
    """A file or folder in `folder` that is not a jar of one of the sets; None if there is none."""
    sets = {name.split("/")[0] for name in listed()}
    for item in sorted(folder.iterdir()) if folder.exists() else ():
        if item.name not in sets or not item.is_dir():
            return item
        inside = next((file for file in item.iterdir() if file.suffix != ".jar" or file.is_dir()), None)
        if inside is not None:
            return inside
    return None


def digest_of(file: Path) -> str:
    """SHA-256 of a file in hex."""
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()
