"""`lakeward init DIR`: create a new project, or what an existing folder lacks."""

from __future__ import annotations

import shlex
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Annotated, Final

import typer

from lakeward.cli.context import state
from lakeward.platform.errors import Refused, SpecError
from lakeward.platform.runtime import resolved

_PLACES: Final[dict[str, str]] = {"gitignore": ".gitignore", "ci/lakeward.yml": ".github/workflows/lakeward.yml"}
"""Templates with another path in a project: package data with a leading dot is easily lost.

Python files end in `.txt` here, because they belong to the new project, not to this package.
"""

_SCHEMAS = Path("conf/.schemas")
COMPOSE_FILES = ("docker-compose.yml", "docker-compose.yaml", "compose.yml", "compose.yaml")


def init(
    directory: Annotated[
        Path | None, typer.Argument(metavar="DIR", help="A folder that is new or empty. With --compose: default here.")
    ] = None,
    dags: Annotated[
        bool, typer.Option("--dags", help="Only the Dag files that a project lacks; no file is changed.")
    ] = False,
    compose: Annotated[
        bool, typer.Option("--compose", help="Only the secrets of docker-compose.yml; none is replaced.")
    ] = False,
) -> None:
    """Make a new project: conf/, expectations/, the Dag loaders, a test and a CI file."""
    if compose:
        compose_secrets(directory or Path())
        return
    if directory is None:
        raise SpecError("init needs a folder", why="DIR is missing", next="lakeward init mylake", code="LW-2547")
    target = resolved(directory)
    if dags:
        added = add_dags(target)
        text = "\n".join(f"  {name}" for name in added) or "no Dag file is missing"
        state().output.either({"project": str(target), "files": added}, text)
        return
    made = create(target)
    commands = [
        *([] if target == Path.cwd() else [f"cd {shlex.quote(str(directory))}"]),
        "lakeward config validate",
        "lakeward stack up",
    ][:3]
    if len(commands) < 3:
        commands.append("lakeward streams list")
    data = {"project": str(target), "files": made, "next": commands}
    text = "\n".join(
        [f"{target}", *(f"  {name}" for name in made), "", "next:", *(f"  {command}" for command in commands)]
    )
    state().output.either(data, text)


def compose_secrets(directory: Path) -> None:
    """Make the secrets of docker-compose.yml in `directory`, and print which."""
    from lakeward.stack import container_secrets

    target = resolved(directory)
    if target.is_dir() and not any((target / name).is_file() for name in COMPOSE_FILES):
        raise SpecError(
            f"{target} has no compose file",
            why=f"the secrets are for the services of one; none of {', '.join(COMPOSE_FILES)} is there",
            next="lakeward init --compose DIR   names the folder of docker-compose.yml",
            code="LW-2548",
        )
    made, kept = container_secrets.make(target)
    folder = target / container_secrets.FOLDER
    here = "" if target == Path.cwd() else f"cd {shlex.quote(str(directory))} && "
    commands = [f"{here}docker compose up --build --detach"]
    lines = [f"{folder}", *(f"  made {name}" for name in made), *(f"  kept {name}" for name in kept)]
    text = "\n".join([*lines, "", "next:", *(f"  {command}" for command in commands)])
    state().output.either({"secrets": str(folder), "made": made, "kept": kept, "next": commands}, text)


def create(target: Path) -> list[str]:
    """Write the files of a new project into `target`; returns their paths, relative and sorted.

    Raises:
        Refused: `target` is a file or a folder that is not empty; nothing was changed.
        SpecError: it cannot be written.
    """
    from lakeward.spec.docs import schema

    contents = _templates(files("lakeward") / "templates")
    contents |= {str(_SCHEMAS / f"{name}.schema.json"): schema.text(name) for name in schema.FILES}
    try:
        if target.is_file() or (target.is_dir() and any(target.iterdir())):
            what = "is a file" if target.is_file() else "is not empty"
            raise Refused(
                f"Cannot create a project: {target} {what}",
                why="init never overwrites files; nothing was changed",
                next="name a new folder: lakeward init mylake",
                code="LW-1203",
            )
        for name, text in contents.items():
            file = target / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text, encoding="utf-8")
    except OSError as error:
        raise SpecError(
            f"Cannot write {target}", why=str(error), next="name another folder: lakeward init mylake", code="LW-1204"
        ) from None
    return sorted(contents)


def add_dags(target: Path) -> list[str]:
    """Write the Dag files that a project lacks; returns their paths, relative and sorted.

    Raises:
        SpecError: `target` is no folder, or cannot be written.
    """
    contents = _templates(files("lakeward") / "templates" / "dags", "dags/")
    missing = {name: text for name, text in contents.items() if not (target / name).exists()}
    try:
        if not target.is_dir():
            raise NotADirectoryError(f"{target} is no folder")
        (target / "dags").mkdir(exist_ok=True)
        for name, text in missing.items():
            (target / name).write_text(text, encoding="utf-8")
    except OSError as error:
        raise SpecError(
            f"Cannot write the Dag files of {target}",
            why=str(error),
            next="name the project's folder: lakeward init --dags .",
            code="LW-1384",
        ) from None
    return sorted(missing)


def _templates(folder: Traversable, prefix: str = "") -> dict[str, str]:
    """Path in the project -> text of every template."""
    templates: dict[str, str] = {}
    for item in folder.iterdir():
        name = f"{prefix}{item.name}"
        if item.is_dir():
            templates |= _templates(item, f"{name}/")
        else:
            templates[_PLACES.get(name, name).removesuffix(".txt")] = item.read_text(encoding="utf-8")
    return templates
