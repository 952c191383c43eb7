"""No module of the package imports, on any way, a module that imports it: also not from inside a function."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from pathlib import Path

import lakeward

ROOT = Path(lakeward.__file__).parent


def _named(node: ast.Import | ast.ImportFrom, known: set[str]) -> Iterator[str]:
    """The modules that one statement imports, by the modules there are."""
    if isinstance(node, ast.Import):
        yield from (each.name for each in node.names if each.name in known)
        return
    base = node.module or ""
    for each in node.names:
        inner = f"{base}.{each.name}"
        yield inner if inner in known else base


def _for_the_type_checker(test: ast.expr) -> bool:
    return ast.unparse(test) in ("TYPE_CHECKING", "typing.TYPE_CHECKING")


def _statements(node: ast.AST) -> Iterator[ast.Import | ast.ImportFrom]:
    """All import statements that run at some time: not those for the type checker alone."""
    waiting = [node]
    while waiting:
        for child in ast.iter_child_nodes(waiting.pop()):
            if isinstance(child, ast.Import | ast.ImportFrom):
                yield child
            elif not (isinstance(child, ast.expr) or (isinstance(child, ast.If) and _for_the_type_checker(child.test))):
                waiting.append(child)


def imports(root: Path) -> dict[str, set[str]]:
    """Module -> the modules of the package at `root` that it imports."""
    files = {
        ".".join(file.relative_to(root.parent).with_suffix("").parts).removesuffix(".__init__"): file
        for file in root.rglob("*.py")
    }
    known = set(files)
    return {
        module: {
            name
            for node in _statements(ast.parse(file.read_text()))
            for name in _named(node, known)
            if name in known and name != module
        }
        for module, file in files.items()
    }


def circles(graph: Mapping[str, set[str]]) -> list[list[str]]:
    """The groups of modules that reach each other (strongly connected components of more than one)."""
    index: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    found: list[list[str]] = []

    def visit(module: str) -> None:
        index[module] = low[module] = len(index)
        stack.append(module)
        for other in sorted(graph[module]):
            if other not in index:
                visit(other)
                low[module] = min(low[module], low[other])
            elif other in stack:
                low[module] = min(low[module], index[other])
        if low[module] == index[module]:
            group = stack[stack.index(module) :]
            del stack[stack.index(module) :]
            if len(group) > 1:
                found.append(sorted(group))

    for module in sorted(graph):
        if module not in index:
            visit(module)
    return found


def test_no_circle_of_imports() -> None:
    graph = imports(ROOT)
    assert len(graph) > 500, "the package was read"
    assert circles(graph) == []


def test_a_circle_is_seen_from_inside_a_function_and_not_for_the_type_checker(tmp_path: Path) -> None:
    root = tmp_path / "package"
    root.mkdir()
    (root / "__init__.py").touch()
    (root / "a.py").write_text("from package import b\n")
    (root / "b.py").write_text("def late():\n    import package.c\n")
    (root / "c.py").write_text("def late():\n    from package.a import name\n")
    (root / "d.py").write_text("if TYPE_CHECKING:\n    from package.e import name\n")
    (root / "e.py").write_text("from package import d\n")
    assert circles(imports(root)) == [["package.a", "package.b", "package.c"]]
