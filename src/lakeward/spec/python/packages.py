"""Python packages of a stream: a pip requirements file in `python/`, every line pinned and hashed.

The file is normalized to one line per package. A generation stores the lines, so a rollback restores the same files.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name

LOCK = "uv pip compile --generate-hashes requirements.in -o requirements.txt"
"""The command that writes such a file."""
_HASH = re.compile(r"--hash=(?:(sha256:[0-9a-f]{64})|\S*)(?=\s|$)")
_COMMENT = re.compile(r"(?:^|\s)#.*")


@dataclass(frozen=True)
class Wrong:
    """One line that is invalid or incomplete."""

    line: int
    message: str
    value: str


def read(text: str) -> tuple[tuple[str, ...], list[Wrong]]:
    """The normalized lines of the file, sorted, and its problems."""
    packages: dict[str, str] = {}
    wrong: list[Wrong] = []
    for number, line in _lines(text):
        hashes = sorted({match[1] for match in _HASH.finditer(line) if match[1]})
        pinned_text = _HASH.sub("", line).strip()
        try:
            if pinned_text.startswith("-"):
                what = "only packages are allowed here: configure the index in uv (UV_INDEX_URL, uv.toml)"
                raise ValueError(what)
            requirement = Requirement(pinned_text)
            name = canonicalize_name(requirement.name)
            pins = [pin for pin in requirement.specifier if pin.operator == "==" and "*" not in pin.version]
            if requirement.url or len(pins) != 1 or len(requirement.specifier) != 1:
                raise ValueError(f"{requirement.name} has no one version; write the file with: {LOCK}")
            if not hashes:
                raise ValueError(f"{requirement.name} has no --hash=sha256:...; write the file with: {LOCK}")
            if name in packages:
                raise ValueError(f"{requirement.name} is listed twice")
        except InvalidRequirement as error:
            wrong.append(Wrong(number, f"this is not a requirement: {str(error).splitlines()[0]}", pinned_text))
        except ValueError as error:
            wrong.append(Wrong(number, str(error), pinned_text))
        else:
            marker = f" ; {requirement.marker}" if requirement.marker else ""
            extras = f"[{','.join(sorted(requirement.extras))}]" if requirement.extras else ""
            keys = "".join(f" --hash={digest}" for digest in hashes)
            packages[name] = f"{name}{extras}=={pins[0].version}{marker}{keys}"
    return tuple(packages[name] for name in sorted(packages)), wrong


def digest_of(packages: Sequence[str]) -> str:
    """Digest of these packages, 12 hexadecimal digits."""
    return hashlib.sha256("\n".join(packages).encode()).hexdigest()[:12]


def pinned(line: str) -> tuple[str, str, Requirement]:
    """Name, version and requirement of a normalized line, without hashes."""
    requirement = Requirement(_HASH.sub("", line).strip())
    [pin] = requirement.specifier
    return canonicalize_name(requirement.name), pin.version, requirement


def _lines(text: str) -> Iterator[tuple[int, str]]:
    """Logical lines with the number of their first line: without comments, with `\\` continuations joined."""
    begun, first = "", 0
    for number, line in enumerate([*text.splitlines(), ""], 1):
        code = _COMMENT.sub("", line).strip()
        first = first or number
        begun = f"{begun} {code}".strip()
        if begun.endswith("\\"):
            begun = begun[:-1].strip()
            continue
        if begun:
            yield first, begun
        begun, first = "", 0
