"""Secrets of the composed stack: made once by `lakeward init --compose`, mounted by docker-compose.yml as files."""

from __future__ import annotations

import base64
import os
import secrets
from collections.abc import Callable
from pathlib import Path

from lakeward.platform import private
from lakeward.platform.errors import Refused, SpecError

FOLDER = "secrets"
MOUNTED = Path("/run/secrets")
"""Where compose mounts the secrets that a service names."""


def _key() -> str:
    return base64.urlsafe_b64encode(secrets.token_bytes(32)).decode()  # the form of a Fernet key


def _token() -> str:
    return secrets.token_urlsafe(32)


FILES: dict[str, Callable[[], str]] = {
    "postgres.password": _token,  # PostgreSQL's administrator
    "lakeward.password": _token,  # the role of the registry and of Airflow
    "catalog.password": _token,  # the role of the Iceberg catalog
    "connect.token": _token,
    "airflow.api.key": _token,
    "airflow.jwt.key": _token,
    "airflow.fernet.key": _key,
    "airflow.password": _token,  # of Airflow's user admin
    "airflow.op.password": _token,
    "airflow.user.password": _token,
    "airflow.viewer.password": _token,
    "spark.secret": _token,  # of the standalone cluster
}
"""File -> what makes its value. The names are those of an embedded stack's home."""


def make(project: Path) -> tuple[list[str], list[str]]:
    """Write the secrets that `project` lacks; returns the files that were made, and those that were there.

    The folder is open to its owner alone, the files in it are readable: a container's user has another number than the
    owner, and compose mounts each file by itself.

    Raises:
        SpecError: the folder cannot be written.
        Refused: a file is empty, as after a full disk.
    """
    made: list[str] = []
    kept: list[str] = []
    try:
        if not project.is_dir():
            raise NotADirectoryError(f"{project} is no folder")
        folder = private.folder(project / FOLDER)
        private.update(folder / ".gitignore", "*\n")  # a project of the user's own may not ignore the folder
        for name, value in FILES.items():
            file = folder / name
            if file.exists():
                if not file.read_text().strip():
                    raise Refused(
                        f"The secret {file} is empty",
                        why="init never overwrites a file, and no service starts with an empty secret",
                        next=f"rm {file}, then: lakeward init --compose {project}",
                        code="LW-2541",
                    )
                kept.append(name)
                continue
            _create(file, value())
            made.append(name)
    except OSError as error:
        raise SpecError(
            f"Cannot write the secrets of {project}",
            why=str(error),
            next="name the folder of docker-compose.yml: lakeward init --compose .",
            code="LW-2542",
        ) from None
    return made, kept


def _create(file: Path, text: str) -> None:
    """Write a new file atomically; one that another process has made in the meantime stays."""
    fresh = private.write(file.with_name(f".{file.name}"), text + "\n")
    try:
        fresh.chmod(0o444)
        os.link(fresh, file)
    finally:
        fresh.unlink()


def adopt(mounted: Path, into: Path) -> list[str]:
    """Copy the secrets that are mounted into this container to its home, mode 0600; returns their names.

    Raises:
        SpecError: one of them cannot be read, or is empty.
    """
    names = [name for name in FILES if (mounted / name).exists()]
    for name in names:
        try:
            text = (mounted / name).read_text().strip()
        except OSError as error:
            raise _unusable(mounted / name, str(error.strerror)) from None
        if not text:
            raise _unusable(mounted / name, "it is empty")
        private.update(into / name, text + "\n")
    return names


def _unusable(file: Path, why: str) -> SpecError:
    return SpecError(
        "A secret of this container cannot be used",
        why=f"{file}: {why}",
        next="on the host, in the folder of docker-compose.yml: lakeward init --compose",
        code="LW-2543",
    )
