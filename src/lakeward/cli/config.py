"""`lakeward config`: validate the project's files, show resolved specs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lakeward.cli.context import state
from lakeward.platform.errors import SpecError, Unhealthy

if TYPE_CHECKING:
    from lakeward.platform.runtime import Runtime
    from lakeward.spec.read.loader import LoadedStream

app = typer.Typer(help="Read the project's files: validate them, show what a stream resolves to.", no_args_is_help=True)


@app.command()
def validate(
    deep: Annotated[
        bool,
        typer.Option(
            "--deep",
            help="Ask Spark, a REST catalog, an object store and Kubernetes, too: types, columns, rights.",
        ),
    ] = False,
) -> None:
    """Report every problem of every file in one pass, else what the columns accept. Exit code 2 when there is one.

    A source of more than 20 columns is shown by type; `-o json` has every column.
    """
    from lakeward.spec.checks.accepted import accepted_columns, accepted_types
    from lakeward.spec.read.loader import load_project

    loaded = load_project(state().project, state().kafka, state().durations)
    problems = list(loaded.problems)
    if deep and loaded.streams:
        from lakeward.cli.deep import deep_problems

        problems += deep_problems(state().project, loaded, _runtime())
    if deep and loaded.settings.catalogs:
        from lakeward.cli.deep import catalog_problems

        problems += catalog_problems(state().project, state().home, loaded)
    if deep and loaded.ok:
        from lakeward.cli.deep import cluster_problems, delta_problems

        problems += delta_problems(state().project, state().home, loaded)
        problems += cluster_problems(state().project, state().home, loaded)
    ok = all(problem.severity != "error" for problem in problems)
    lines = [problem.text() for problem in problems]
    errors = sum(problem.severity == "error" for problem in problems)
    counted = f"{_count(len(loaded.streams), 'stream')}, {_count(len(loaded.suites), 'suite')}"
    columns = {str(name): list(accepted_columns(stream.spec)) for name, stream in loaded.streams.items()}
    if ok:
        lines += [f"{name}: {line}" for name, stream in loaded.streams.items() for line in accepted_types(stream.spec)]
    lines.append(f"ok: {counted}" if ok else _count(errors, "problem"))
    if deep and not loaded.ok:
        resolved = ", ".join(sorted(loaded.streams)) or "none: no stream's file is without problems"
        lines.append(f"--deep asked Spark about {resolved}")
    found = {"ok": ok, "problems": [problem.document() for problem in problems], "accepts": columns}
    state().output.either(found, "\n".join(lines))
    if not ok:
        raise typer.Exit(2)


def _runtime() -> Runtime | None:
    """The addresses of the stack; None if none was started here."""
    try:
        return state().runtime
    except Unhealthy:
        return None


@app.command()
def show(stream: Annotated[str, typer.Argument(help="The stream's id.")]) -> None:
    """Print the resolved spec of a stream, and where each value came from."""
    stream_ = of_project(stream)
    document = stream_.spec.document()
    data = {"stream": stream, "file": stream_.file, "spec": document, "origins": dict(stream_.origins)}
    state().output.either(data, with_origins(document, stream_.origins))


def of_project(stream: str) -> LoadedStream:
    """A stream of the project's files.

    Raises:
        SpecError: the stream does not exist, or its file is not valid.
    """
    from lakeward.spec.read.loader import load_project
    from lakeward.spec.read.problems import nearest, raise_if_any

    loaded = load_project(state().project)
    loaded_stream = loaded.streams.get(stream)
    if loaded_stream is None:
        # The file may be wrong, its SQL, what all streams share, or its id may not be the file's name.
        problems = [problem for problem in loaded.problems if problem.file.startswith(f"conf/streams/{stream}.")]
        raise_if_any(problems or [problem for problem in loaded.problems if problem.file.startswith("conf/")])
        known = ", ".join(sorted(loaded.streams)) or "none"
        like = nearest(stream, loaded.streams)
        raise SpecError(
            f"There is no stream {stream!r} in this project",
            why=f"declared: {known}" + (f"; did you mean {like}?" if like else ""),
            next="lakeward config validate",
            code="LW-1201",
        )
    return loaded_stream


def with_origins(document: dict[str, Any], origins: Mapping[str, str]) -> str:
    """The value at every path of `origins`, a line each, with where it came from."""
    width = max(len(path) for path in origins)
    lines = [f"{path:<{width}}  {_value(document, path)}   # {origins[path]}" for path in sorted(origins)]
    return "\n".join(lines)


def _value(document: dict[str, Any], path: str) -> str:
    value = _at(document, path)
    if path.startswith(("transform.code.", "sink.code.")):  # a whole module: show only its length
        return _count(len(value.splitlines()), "line")
    return _short(value)


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


def _at(document: dict[str, Any], path: str) -> Any:
    """The value at a dotted path; keys may contain dots (Spark settings), and be prefixes of others."""
    return next(_values(document, path))


def _values(document: dict[str, Any], path: str) -> Iterator[Any]:
    for key, value in document.items():
        if path == key:
            yield value
        elif path.startswith(f"{key}.") and isinstance(value, dict):
            yield from _values(value, path[len(key) + 1 :])


def _short(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list):
        return "[" + ", ".join(map(str, value)) + "]"
    if value == {}:
        return "{}"
    if value is None:
        return "-"
    return " ".join(str(value).split())
