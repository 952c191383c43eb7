"""Odd arguments and odd data: what stock Great Expectations says on Spark and on pandas, and what Lakeward says.

    python tests/support/gx_odd.py < runtime.json          tells the answers to every cell, one JSON line each
    python tests/support/gx_odd.py 7 < runtime.json        only to the cells that seed 7 draws
    python tests/support/gx_odd.py page < these lines      writes the page of the docs and what it is made from

A process of its own, set up as the checking process is. Each check is asked of stock alone: stock computes the metrics
of a suite together, and one that fails fails the others.
"""

from __future__ import annotations

import json
import random
import sys
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gx_matrix import QUICK
from gx_odd_cases import CASES, DATA, Kwargs
from gx_odd_whys import why_of
from pydantic import ValidationError

from lakeward.quality.suite.configured import ConfiguredCheck
from lakeward.spec.model.suite import Expectation

if TYPE_CHECKING:
    from pyspark.sql.connect.session import SparkSession

DRAWN = 1
"""Cells of each kind of oddity in a draw; the night takes all cells."""
Case = tuple[str, str, Kwargs, str]
_WORDS = 200


def draw(seed: int | None) -> list[int]:
    """The numbers of the cells: some of every kind, chosen by the seed; all without one."""
    if seed is None:
        return list(range(len(CASES)))
    chance = random.Random(seed)
    groups: dict[str, list[int]] = {}
    for number, case in enumerate(CASES):
        groups.setdefault(case[0], []).append(number)
    return sorted(number for each in groups.values() for number in chance.sample(each, DRAWN))


def cells(spark: SparkSession, seed: int | None = None) -> Iterator[dict[str, Any]]:
    """The three answers to each cell, in order of their numbers; Lakeward is asked about all of a kind together."""
    from lakeward.quality.engine.gx import Checker

    for setting, value in QUICK.items():
        spark.conf.set(setting, value)
    checker, pandas = Checker(), _Pandas()
    numbers = draw(seed)
    rows: dict[str, Any] = {}
    for name, query in DATA.items():
        read = spark.sql(query).coalesce(1)
        arrow = read.toArrow()
        rows[name] = spark.createDataFrame(arrow, read.schema).coalesce(1), arrow.to_pandas()
    for group in dict.fromkeys((CASES[number][0], CASES[number][3]) for number in numbers):
        of_group = [number for number in numbers if (CASES[number][0], CASES[number][3]) == group]
        frame, table = rows[group[1]]
        made = {number: _configured(number) for number in of_group}
        asked = [each for each in made.values() if isinstance(each, ConfiguredCheck)]
        ours = {each.id: each for each in checker.check(frame, asked)}
        for number in of_group:
            configured, spark_says = made[number], "error"
            if isinstance(configured, str):
                state, words = "refused", configured
            else:
                found = ours[configured.id]
                state, words = found.state.value, found.error or ""
                with suppress(Exception):  # Great Expectations refuses by any type
                    spark_says = checker.stock(frame, [configured])[configured.id].state.value
            _, kind, kwargs, _ = CASES[number]
            says = pandas.says(table, kind, kwargs)
            told = " ".join(words.split())[:_WORDS]
            yield {"case": number, "spark": spark_says, "pandas": says, "ours": state, "words": told}


def _configured(number: int) -> ConfiguredCheck | str:
    """The check; why the suite's grammar refuses it, as a text."""
    _, kind, kwargs, _ = CASES[number]
    try:
        return ConfiguredCheck(str(number), Expectation(type=kind, kwargs=kwargs), "increment")
    except ValidationError as error:
        return str(error.errors()[0]["msg"])


class _Pandas:
    """Stock Great Expectations on pandas."""

    def __init__(self) -> None:
        import great_expectations as gx

        self._gx = gx
        context: Any = gx.get_context(mode="ephemeral")
        context.variables.progress_bars = {"globally": False}
        self._source = context.data_sources.add_pandas("p")
        self._batches: dict[int, Any] = {}

    def says(self, table: Any, kind: str, kwargs: Kwargs) -> str:
        """`pass`, `fail` or `error`."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                if id(table) not in self._batches:
                    asset = self._source.add_dataframe_asset(f"rows-{id(table)}")
                    made = asset.add_batch_definition_whole_dataframe("rows")
                    self._batches[id(table)] = made.get_batch({"dataframe": table})
                suite = self._gx.ExpectationSuite(name="odd", expectations=[{"type": kind, "kwargs": kwargs}])
                result = self._batches[id(table)].validate(suite).results[0]
            except Exception:  # noqa: BLE001 - Great Expectations refuses by any type
                return "error"
        if result.exception_info and any(_raised(each) for each in (result.exception_info, *_nested(result))):
            return "error"
        return "pass" if result.success else "fail"


def _nested(result: Any) -> list[Any]:
    return [each for each in result.exception_info.values() if isinstance(each, dict)]


def _raised(info: Any) -> bool:
    return bool(info.get("raised_exception")) if isinstance(info, dict) else False


HELD = Path(__file__).parents[2] / "docs" / "reference" / "check-arguments.json"
PAGE = HELD.with_suffix(".md")
START, END = "<!-- differences: written by tests/support/gx_odd.py -->", "<!-- differences end -->"


def held(found: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """What is kept of the cells: the case and the three answers; our words where they are an error."""
    rows = []
    for cell in found:
        group, kind, kwargs, data = CASES[cell["case"]]
        rows.append({
            "kind": group, "data": data, "expectation": kind, "kwargs": kwargs,
            **{key: cell[key] for key in ("spark", "pandas", "ours")},
            **({"words": cell["words"]} if cell["words"] else {}),
        })  # fmt: skip
    return rows


def differs(row: Mapping[str, Any]) -> bool:
    """Whether the three do not agree."""
    return not row["spark"] == row["pandas"] == row["ours"]


def page(rows: Sequence[Mapping[str, Any]], before: str) -> str:
    """The page with its generated part written again."""
    head, _, rest = before.partition(START)
    return head + START + "\n\n" + "\n".join(_tables(rows)) + "\n" + END + rest.partition(END)[2]


def _tables(rows: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    apart = [row for row in rows if differs(row)]
    yield (
        f"Of {len(rows)} cells the three agree on {len(rows) - len(apart)}. The others follow, by what is odd, with the"
        " reason; all cells are in [check-arguments.json](check-arguments.json)."
    )
    for group in dict.fromkeys(row["kind"] for row in rows):
        mine = [row for row in rows if row["kind"] == group]
        differing = [row for row in mine if differs(row)]
        yield f"\n### {group[0].upper()}{group[1:]}\n"
        yield f"{len(mine)} cells, {len(differing)} with a difference.\n"
        if differing:
            yield "| expectation | arguments | stock on Spark | on pandas | here | why |"
            yield "|---|---|---|---|---|---|"
        for row in differing:
            arguments = ", ".join(
                f"`{key}: {json.dumps(value, ensure_ascii=False)}`" for key, value in row["kwargs"].items()
            )
            cells = (f"`{row['expectation']}`", arguments, row["spark"], row["pandas"], row["ours"], why_of(row) or "")
            yield f"| {' | '.join(each.replace('|', '&#124;') for each in cells)} |"


def main() -> None:
    """Entry point."""
    if sys.argv[1:] == ["page"]:
        rows = held(json.loads(line) for line in sys.stdin)
        HELD.write_text("[\n" + ",\n".join(json.dumps(row) for row in rows) + "\n]\n")
        PAGE.write_text(page(rows, PAGE.read_text()))
        return
    from lakeward.connectors.spark.connect import session
    from lakeward.platform.runtime import Runtime

    with session(Runtime.model_validate_json(sys.stdin.read())) as spark:
        seed = int(sys.argv[1]) if sys.argv[1:] else None
        for cell in cells(spark, seed):
            print(json.dumps(cell), flush=True)


if __name__ == "__main__":
    main()
