"""The page of the benchmarks, `docs/explanation/benchmarks.md`, and its plots, made of the history."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import groupby
from pathlib import Path

from bench_figures import BENCHMARKS, Benchmark, Figure, Measured
from bench_history import Record, newest

FOLDER = Path(__file__).parents[1] / "docs" / "explanation"
HEAD = """# Benchmarks: all figures

Written by `make bench` from [history.jsonl](../../benchmarks/history.jsonl); do not edit. A figure is the median of its
rounds, followed by the quartiles (or least and most). Ratios and CPU-seconds compare within one run, in turns, and hold
on a shared machine; times are of this machine. The load is that before the run: on two cores a figure with a load above
2 was measured while other work ran. No benchmark gates a change. `make bench-quick` measures a part in five minutes.
"""


def write_page(records: Iterable[Record]) -> Path:
    """Write page and plots; returns the page."""
    found = newest(records)
    for section, benchmarks in _sections():
        if (ratios := list(_ratios(benchmarks, found))) and _has_plot(ratios):
            _plot(ratios, FOLDER / _plot_name(section))
    page = FOLDER / "benchmarks.md"
    page.write_text(page_text(found))
    return page


def page_text(found: Mapping[str, Record]) -> str:
    """The page, of the newest run of each benchmark."""
    parts = [HEAD]
    for section, benchmarks in _sections():
        parts.append(f"## {section}")
        if _has_plot(list(_ratios(benchmarks, found))):
            parts.append(f"![{section}: ratios with quartiles, and goals]({_plot_name(section)})")
        parts.append("\n".join(_table(benchmarks, found)))
        parts.append("\n".join(_meanings(benchmarks)))
        parts.append("\n".join(_provenance(benchmarks, found)))
    parts.append(_machine(found))
    return "\n\n".join(part.strip() for part in parts if part) + "\n"


def text_lines(records: Iterable[Record]) -> list[str]:
    """The figures of some runs, for a terminal."""
    lines = []
    of = {each.name: each for each in BENCHMARKS}
    for record in records:
        if record.failed:
            lines.append(f"{record.name}: failed, {record.failed}")
        for figure in of[record.name].figures:
            if record.result is not None and (measured := figure.of(record.result)):
                goal = f"   goal {figure.goal}: {_verdict(figure, measured)}" if figure.goal else ""
                lines.append(f"{_value(measured):>24} {figure.unit:9} {figure.title}{goal}")
    return lines


def _sections() -> list[tuple[str, list[Benchmark]]]:
    return [(section, list(group)) for section, group in groupby(BENCHMARKS, lambda each: each.section)]


def _has_plot(ratios: list[tuple[Figure, Measured]]) -> bool:
    return len(ratios) > 1


def _plot_name(section: str) -> str:
    return f"benchmarks-{section.lower().replace(' ', '-')}.svg"


def _table(benchmarks: Iterable[Benchmark], found: Mapping[str, Record]) -> Iterable[str]:
    yield "| figure | measured | unit | goal | |"
    yield "|---|---|---|---|---|"
    for benchmark in benchmarks:
        record = found.get(benchmark.name)
        for figure in benchmark.figures:
            measured = figure.of(record.result) if record and record.result else None
            goal = str(figure.goal) if figure.goal else ""
            if measured is None:
                yield f"| {figure.title} | not measured | {figure.unit} | {goal} | |"
            else:
                verdict = _verdict(figure, measured)
                yield f"| {figure.title} | {_value(measured)} | {figure.unit} | {goal} | {verdict} |"


def _meanings(benchmarks: Iterable[Benchmark]) -> Iterable[str]:
    """One line for each text; figures with the same text share it."""
    titles: dict[str, list[str]] = {}
    for benchmark in benchmarks:
        for figure in benchmark.figures:
            titles.setdefault(figure.means, []).append(figure.title)
    for text, of in titles.items():
        yield f"- *{'; '.join(of)}*: {text}"


def _provenance(benchmarks: Iterable[Benchmark], found: Mapping[str, Record]) -> Iterable[str]:
    for each in benchmarks:
        if record := found.get(each.name):
            command = " ".join(record.command)
            yield f"`{command}`: commit {record.commit}, {record.at[:10]}, load {record.load[0]}, {record.seconds} s.  "


def _machine(found: Mapping[str, Record]) -> str:
    machines = {", ".join(f"{key} {value}" for key, value in each.machine.items()): None for each in found.values()}
    return "## The machine\n\n" + "\n".join(f"- {each}" for each in machines)


def _value(measured: Measured) -> str:
    if measured.low is None or measured.high is None:
        return _short(measured.median)
    return f"{_short(measured.median)} ({_short(measured.low)} to {_short(measured.high)})"


def _short(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def _verdict(figure: Figure, measured: Measured) -> str:
    if figure.goal is None:
        return ""
    return "met" if figure.goal.met(measured.median) else "missed"


def _ratios(benchmarks: Iterable[Benchmark], found: Mapping[str, Record]) -> Iterable[tuple[Figure, Measured]]:
    for benchmark in benchmarks:
        record = found.get(benchmark.name)
        for figure in benchmark.figures:
            measured = figure.of(record.result) if record and record.result else None
            if measured is not None and figure.unit == "ratio":
                yield figure, measured


def _plot(ratios: list[tuple[Figure, Measured]], file: Path) -> None:
    """Dots with quartiles on a logarithmic axis, the line at 1, and each goal as a mark."""
    import matplotlib as mpl
    from matplotlib.figure import Figure as Drawing

    # The same input makes the same file: no date, no random identifiers.
    with mpl.rc_context({"svg.hashsalt": "lakeward", "font.size": 9}):
        drawing = Drawing(figsize=(8, 0.9 + 0.42 * len(ratios)), layout="constrained")
        axes = drawing.subplots()
        for row, (figure, measured) in enumerate(reversed(ratios)):
            low, high = measured.low or measured.median, measured.high or measured.median
            axes.plot([low, high], [row, row], color="#2b6cb0", linewidth=3, solid_capstyle="round", zorder=2)
            axes.plot([measured.median], [row], "o", color="#1a365d", markersize=6, zorder=3)
            if figure.goal:
                mark = ">" if figure.goal.sign == ">=" else "<"
                axes.plot([figure.goal.value], [row], mark, color="#c05621", markersize=7, zorder=4)
        axes.axvline(1.0, color="#718096", linewidth=1, zorder=1)
        axes.set_xscale("log")
        ticks = [0.02, 0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1, 1.25, 1.5, 2, 3]
        lowest, highest = axes.get_xlim()
        shown = [tick for tick in ticks if lowest <= tick <= highest]
        axes.set_xticks(shown, [f"{tick:g}" for tick in shown])
        axes.minorticks_off()
        axes.set_yticks(range(len(ratios)), [figure.title for figure, _ in reversed(ratios)])
        axes.set_ylim(-0.6, len(ratios) - 0.4)
        drawing.supxlabel("ratio: median and quartiles; a triangle is a goal and points to the better side", fontsize=9)
        drawing.savefig(file, format="svg", metadata={"Date": None})
