"""Give each place that makes an error a stable code, and write the page that lists them.

`python tools/error_codes.py` numbers what has no code yet and writes docs/reference/errors.md; a number is never given
twice and never changed. `--check` fails where a code is missing or given twice, or where the page is not current.
"""

from __future__ import annotations

import ast
import re
import sys
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
SOURCES = ROOT / "src" / "lakeward"
PAGE = ROOT / "docs" / "reference" / "errors.md"
ROOT_CLASS = "LakewardError"
BLOCKS = {
    "spec": (1000, "Specs and projects"),
    "cli": (1200, "Command line"),
    "operations": (2000, "Operations"),
    "engine": (2200, "Batches, checkpoints and sinks"),
    "driver": (2400, "Drivers"),
    "supervision": (2500, "Supervision"),
    "connectors": (3000, "Connectors"),
    "tables": (4000, "Tables"),
    "quality": (5000, "Quality"),
    "lineage": (5800, "Lineage"),
    "web": (5900, "The page's API"),
    "registry": (6000, "Registry"),
    "airflow": (6200, "Airflow"),
    "stack": (7000, "The stack on one machine"),
    "jars": (7200, "Jars and Java"),
    "demo": (7400, "Demo"),
    "platform": (9000, "Lakeward itself"),
}
"""First number and title by package."""
OWN_TEXT = {"connectors/files/log.py": "LogBroken"}
"""Errors that are made without a text, by the module that gives them theirs."""
HEAD = """# Error codes

Every error has a code that does not change: it is printed at the end of the error's first line, in brackets, and is
`code` in JSON. The line below it says why, the last one what to do next. `…` stands for a value. The
[runbook](../runbooks/on-call.md) says what to do at night. This page is written by `tools/error_codes.py`.
"""


@dataclass(frozen=True)
class Site:
    """One place that makes an error.

    Attributes:
        node: the call.
        kind: the class of the error.
        code: its code; empty for none.
        what: its first line, `…` for each value.
    """

    file: Path
    node: ast.Call
    kind: str
    code: str
    what: str

    @property
    def package(self) -> str:
        return self.file.relative_to(SOURCES).parts[0].removesuffix(".py")


def trees() -> dict[Path, ast.Module]:
    """Every module of the package."""
    return {file: ast.parse(file.read_text(encoding="utf-8")) for file in sorted(SOURCES.rglob("*.py"))}


def error_classes(modules: dict[Path, ast.Module]) -> set[str]:
    """The names of all errors below the root."""
    bases = {
        node.name: {ast.unparse(base).rpartition(".")[2] for base in node.bases}
        for tree in modules.values()
        for node in ast.walk(tree)
        if isinstance(node, ast.ClassDef)
    }
    found = {ROOT_CLASS}
    while more := {name for name, of in bases.items() if of & found} - found:
        found |= more
    return found


def sites(modules: dict[Path, ast.Module]) -> Iterator[Site]:
    """Every place that makes an error with a text of its own; one that passes another's text on passes its code on."""
    kinds = error_classes(modules) | {"BlockReason"}
    for file, tree in modules.items():
        for node in ast.walk(tree):
            if not isinstance(node, ast.Call):
                continue
            kind = ast.unparse(node.func).rpartition(".")[2]
            if kind == "__init__" and file.name != "errors.py":  # a class whose text is its own
                kind = OWN_TEXT.get(str(file.relative_to(SOURCES)), "")
            elif kind in OWN_TEXT.values():
                continue
            given = next((each.value for each in node.keywords if each.arg == "code"), None)
            if kind not in kinds or (given is not None and not isinstance(given, ast.Constant)):
                continue
            texts = node.args[1:] if kind == "BlockReason" else node.args
            if not texts:
                continue
            code = str(given.value) if isinstance(given, ast.Constant) else ""
            yield Site(file, node, "Blocked" if kind == "BlockReason" else kind, code, sentence(texts[0]))


def sentence(node: ast.expr) -> str:
    """The text of an expression, `…` for each value in it."""
    if isinstance(node, ast.Constant):
        return str(node.value)
    if isinstance(node, ast.JoinedStr):
        return "".join(str(part.value) if isinstance(part, ast.Constant) else "…" for part in node.values)
    if isinstance(node, ast.IfExp):
        return f"{sentence(node.body)} / {sentence(node.orelse)}"
    return "…"


def number(found: list[Site]) -> int:
    """Write a code into each call that has none; returns how many."""
    used = {int(site.code.removeprefix("LW-")) for site in found if site.code}
    fresh: dict[Path, list[tuple[Site, str]]] = defaultdict(list)
    for site in found:
        if not site.code:
            first = BLOCKS[site.package][0]
            free = next(each for each in range(first + 1, first + 1000) if each not in used)
            used.add(free)
            fresh[site.file].append((site, f"LW-{free:04d}"))
    for file, coded in fresh.items():
        lines = file.read_text(encoding="utf-8").split("\n")
        for site, code in sorted(coded, key=lambda each: (each[0].node.end_lineno, each[0].node.end_col_offset))[::-1]:
            row, column = (site.node.end_lineno or 0) - 1, (site.node.end_col_offset or 0) - 1
            line = lines[row].encode()
            before = b"\n".join([*(each.encode() for each in lines[:row]), line[:column]]).rstrip()
            comma = b"" if before.endswith((b",", b"(")) else b","
            lines[row] = (line[:column] + comma + f' code="{code}"'.encode() + line[column:]).decode()
        file.write_text("\n".join(lines), encoding="utf-8")
    return sum(map(len, fresh.values()))


def page(found: list[Site]) -> str:
    """The reference page."""
    text = [HEAD]
    for package, (_, title) in BLOCKS.items():
        rows = sorted((site for site in found if site.package == package), key=lambda site: site.code)
        if rows:
            text += [f"## {title}", "", "| code | error | kind |", "|---|---|---|"]
            for site in rows:
                what = (
                    re.sub(r"\s+", " ", site.what if site.what != "…" else "… (the text names what does not fit)")
                    .replace("|", "\\|")
                    .replace("<", "&lt;")
                    .replace("{", "&#123;")
                )
                text.append(f"| {site.code} | {what} | `{site.kind}` |")
            text.append("")
    return "\n".join(text)


def main() -> int:
    """Number and write, or check; returns the exit code."""
    found = list(sites(trees()))
    if "--check" not in sys.argv[1:]:
        sys.stderr.write(f"{number(found)} new codes\n")
        PAGE.write_text(page(list(sites(trees()))), encoding="utf-8")
        return 0
    wrong = [f"{s.file.relative_to(ROOT)}:{s.node.lineno}: an error without a code" for s in found if not s.code]
    places: dict[str, list[str]] = defaultdict(list)
    for site in found:
        places[site.code].append(f"{site.file.relative_to(ROOT)}:{site.node.lineno}")
    wrong += [f"{code} is given {len(at)} times: {', '.join(at)}" for code, at in places.items() if code and at[1:]]
    if not wrong and (not PAGE.exists() or PAGE.read_text(encoding="utf-8") != page(found)):
        wrong = [f"{PAGE.relative_to(ROOT)} is not current"]
    sys.stderr.write("".join(f"{each}\n" for each in wrong))
    if wrong:
        sys.stderr.write("next: python tools/error_codes.py\n")
    return 1 if wrong else 0


if __name__ == "__main__":
    raise SystemExit(main())
