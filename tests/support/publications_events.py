"""What happens to a table in a `publication_schedule`, besides runs: to the rows, the history, the branch."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pyarrow as pa
from publications_oracle import HUGE, SANE, Oracle

from lakeward.platform.errors import Refused
from lakeward.quality.publishing.release import release
from lakeward.quality.runs.engines import Engines
from lakeward.quality.runs.formats import IcebergTable
from lakeward.quality.verdicts import waive
from lakeward.quality.verdicts.waivers import ids
from lakeward.registry.schema import waivers
from lakeward.spec.model.suite import Suite
from lakeward.spec.model.types import Duration

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog
    from pyiceberg.table import Table

NAMESPACE = "published"
SCHEMA = pa.schema([("id", pa.int64()), ("carrier", pa.string()), ("delay", pa.float64())])
EXPECTATIONS = [
    {"type": "expect_column_values_to_not_be_null", "kwargs": {"column": "carrier"}, "severity": "critical"},
    {"type": "expect_column_values_to_be_in_set", "kwargs": {"column": "carrier", "value_set": ["AA", "UA"]},
     "severity": "critical"},
    {"type": "expect_column_max_to_be_between", "kwargs": {"column": "delay", "max_value": HUGE},
     "severity": "critical", "scope": "table"},
    {"type": "expect_column_values_to_be_between", "kwargs": {"column": "delay", "max_value": SANE}},
]  # fmt: skip
TRACED = 1000
"""Seeds from here on have a table of format version 3, whose rows tell when they were written."""
WAIVED = {"null": 0, "text": 1}
"""What may be waived: a kind of wrong row, and its expectation."""


@dataclass
class Happenings:
    """One table and what may happen to it; a method an event, `_land_null` for `land-null`.

    Args:
        seed: of every choice.
        engines: to reach table and registry.
    """

    seed: int
    engines: Engines
    rows: int = 0
    waived: set[str] = field(default_factory=set)
    renamed: bool = False
    rollbacks: int = 0  # that no run has seen yet

    def __post_init__(self) -> None:
        self.random = random.Random(self.seed)
        self.name = f"{NAMESPACE}.s{self.seed}_{uuid4().hex[:8]}"
        self.oracle = Oracle(self.engines, self.name)
        self.suite = Suite.model_validate({"table": self.name, "owner": "tests", "expectations": EXPECTATIONS})

    @property
    def traced(self) -> bool:
        """Whether the table has row lineage; PyIceberg does not write it then, so Spark does what it would."""
        return self.seed >= TRACED

    @property
    def lake(self) -> Catalog:
        return self.engines.lake

    @property
    def table(self) -> Table:
        return self.lake.load_table(self.name)

    def _sql(self, text: str) -> None:
        self.engines.session.sql(text.format(t=f"lake.{self.name}", name=self.name)).collect()

    def _land(self, bad: int = 0, **wrong: Any) -> None:
        count = self.random.randint(2, 6)
        rows = [{"id": self.rows + each, "carrier": "AA", "delay": 10.0} for each in range(count)]
        for each in rows[:bad]:
            each |= wrong
        self.rows += count
        if self.renamed:
            rows = [{("carrier_2" if key == "carrier" else key): value for key, value in each.items()} for each in rows]
        names = [(f"{each.name}_2" if self.renamed and each.name == "carrier" else each.name) for each in SCHEMA]
        made = pa.Table.from_pylist(rows, pa.schema(list(zip(names, SCHEMA.types, strict=True))))
        if self.traced:
            self.engines.session.createDataFrame(made).writeTo(f"lake.{self.name}").append()
        else:
            self.table.append(made)

    def _land_it(self) -> None:
        self._land()

    def _land_null(self) -> None:
        self._land(1, carrier=None)

    def _land_text(self) -> None:
        self._land(1, carrier="??")

    def _land_slow(self) -> None:
        self._land(1, delay=SANE + 1)

    def _land_huge(self) -> None:
        self._land(1, delay=HUGE + 1)

    def _compact_it(self) -> None:
        options = "options => map('rewrite-all', 'true')"
        self._sql(f"CALL lake.system.rewrite_data_files(table => '{{name}}', {options})")

    def _expire_it(self) -> None:
        keep = self.random.choice([1, 1, 2, 3])
        self._sql(f"CALL lake.system.expire_snapshots(table => '{{name}}', older_than => now(), retain_last => {keep})")

    def _update_it(self) -> None:
        if not self.renamed and self.rows:
            value = self.random.choice(["NULL", "'??'", "'UA'"])
            self._sql(f"UPDATE {{t}} SET carrier = {value} WHERE id = {self.random.randrange(self.rows)}")

    def _merge_it(self) -> None:
        if not self.renamed and self.rows:
            known = self.random.randrange(self.rows)
            value = self.random.choice(["NULL", "'AA'"])
            self._sql(
                f"MERGE INTO {{t}} m USING (SELECT explode(array({known}, {self.rows})) AS id) s ON m.id = s.id "
                f"WHEN MATCHED THEN UPDATE SET carrier = {value} "
                "WHEN NOT MATCHED THEN INSERT (id, carrier, delay) VALUES (s.id, 'UA', 1D)"
            )
            self.rows += 1

    def _mend_it(self) -> None:
        """A person takes the wrong rows out."""
        head = self.table.current_snapshot()
        bad = {id for id, _ in self.oracle.wrong_rows(head.snapshot_id)} if head is not None else set()
        of = f"id IN ({', '.join(map(str, sorted(bad)))})"
        if bad and self.traced:
            self._sql(f"DELETE FROM {{t}} WHERE {of}")
        elif bad:
            self.table.delete(of)

    def _roll_back(self) -> None:
        line = list(self.oracle.history().ancestry(self.oracle.history().head))
        if len(line) > 1:
            to = self.random.choice(line[1:4])
            if self.traced:
                self._sql(f"CALL lake.system.set_current_snapshot('{{name}}', {to.id})")
            else:
                self.table.manage_snapshots().set_current_snapshot(snapshot_id=to.id).commit()
            self.rollbacks += 1

    def _rename_it(self) -> None:
        if not self.renamed:
            self._name("carrier", "carrier_2")
            self.renamed = True

    def _rename_back(self) -> None:
        if self.renamed:
            self._name("carrier_2", "carrier")
            self.renamed = False

    def _name(self, old: str, new: str) -> None:
        if self.traced:
            self._sql(f"ALTER TABLE {{t}} RENAME COLUMN {old} TO {new}")
        else:
            self.table.update_schema().rename_column(old, new).commit()

    def _replace_it(self) -> None:
        if not self.renamed:
            self._sql("CREATE OR REPLACE TABLE {t} USING iceberg AS SELECT * FROM {t} WHERE id % 2 = 0")
            self.rollbacks += 1

    def _waive_it(self) -> None:
        kind = self.random.choice(sorted(WAIVED))
        check = ids(self.suite)[WAIVED[kind]]
        with self.engines.registry() as connection:
            waive.waive(connection, self.name, check, kind, Duration("1h"), author="ada", reason="known")
        self.waived.add(kind)

    def _waiver_over(self) -> None:
        """Its time passes."""
        if self.waived:
            kind = self.random.choice(sorted(self.waived))
            check = ids(self.suite)[WAIVED[kind]]
            with self.engines.registry() as connection:
                mine = (waivers.c.table == self.name) & (waivers.c.check == check) & waivers.c.ended_at.is_(None)
                connection.execute(waivers.update().where(mine).values(until=waivers.c.at))
            self.waived.discard(kind)

    def _lapse_it(self) -> None:
        """A waiver comes and goes before the rows that it would have excused."""
        self._waive_it()
        for _ in range(len(self.waived)):
            self._waiver_over()
        self._land_null()
        self._land_text()

    def _release_it(self) -> None:
        by = {"author": "ada", "comment": "known"}
        try:
            done = release(
                self.engines.registry, IcebergTable(self.name, self.lake), lambda: self.engines.session, **by
            )
        except Refused:
            return
        self.oracle.released(done["verified_snapshot"])

    def _drop_branch(self) -> None:
        if self.oracle.history().verified is not None:
            self._sql("ALTER TABLE {t} DROP BRANCH IF EXISTS verified")

    def _move_branch(self) -> None:
        """Somebody publishes main by hand, where something is proven that a run can put it back to."""
        now = self.oracle.history()
        if now.head not in self.oracle.proven and any(each.id in self.oracle.proven for each in now.ancestry(now.head)):
            self._sql(f"ALTER TABLE {{t}} CREATE OR REPLACE BRANCH verified AS OF VERSION {now.head}")
            self.oracle.by_hand = now.head
