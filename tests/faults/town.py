"""Many streams on one driver, to cause trouble on."""

from __future__ import annotations

import json
import os
import re
import signal
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any
from uuid import uuid4

from desk import Desk, repeating
from world import simple_stream

from lakeward.registry import drivers, generations, streams

OTHER_SINKS = ("delta", "postgres", "folder", "topic")
"""First words of the names of streams that do not land in Iceberg."""


class Town:
    """Many streams on one driver, each with a topic and a table of its own."""

    def __init__(self, desk: Desk) -> None:
        self.desk = desk
        self.folder = desk.home.parent
        self.sent: dict[str, int] = {}
        self.topics: dict[str, str] = {}
        self.ids: dict[str, str] = {}
        self.specs: Mapping[str, Callable[[Town], dict[str, Any]]] = {}

    def build(self, names: Sequence[str]) -> None:
        """Deploy and start the streams; one that is named `later` has no topic yet."""
        settings = {"cores": 2, "memory": "1500m", "compiler": "quick", "spark": dict(self.desk.world.interpretation)}
        (self.desk.project / "conf" / "lakeward.yaml").write_text(json.dumps({"drivers": {"town": settings}}))
        for name in names:
            self.ids[name], self.sent[name] = f"{self.desk.world.name}_{name}", 0
            if name.startswith("files"):
                (self.folder / name).mkdir()
            elif name == "later":
                self.topics[name] = f"later-{uuid4().hex[:8]}"
            else:
                self.topics[name] = self.desk.world.kafka.create_topic()
            if name.startswith("topic"):
                self.desk.world.kafka.create_topic(f"{self.topics[name]}-out")
            self.write(name)
            if name != "later":
                self.send(name)
        self.desk.done("lakeward deploy")
        # For the time of a lease after the registry came up, a pass launches nothing: drivers may still renew.
        self.desk.world.wait_for("the launch", self._launched)
        for name in names:
            if name not in ("later", "window"):
                self.desk.world.wait_for(f"a batch of {name}", lambda name=name: self.seq(name) > 0)

    def _launched(self) -> bool:
        self.desk.done("lakeward streams start --tag town --max-parallel 20")
        return any(self.desk.world.runtime.drivers.rglob("launch.json"))

    def write(self, name: str, **more: Any) -> None:
        """The file of a stream."""
        table = f"{self.desk.world.name}.{self.ids[name].removeprefix(self.desk.world.name + '_')}"
        made = simple_stream(
            self.ids[name], self.topics.get(name, ""), table, tags=["town"], resources={"driver": "town"},
            trigger={"every": "2s"}, restart={"max_backoff": "20s"},
        )  # fmt: skip
        if name == "window":
            made["source"]["watermark"] = {"column": "_kafka_timestamp", "delay": "1s"}
            sql = "SELECT window.end AS at, count(*) AS n FROM source GROUP BY window(_kafka_timestamp, '1 second')"
            made |= {"transform": {"sql": sql}, "lineage": "none"}
        elif name.startswith("files"):
            made["source"] = {"files": {"path": str(self.folder / name), "format": "json", "max_files_per_trigger": 10}}
            made |= {"lineage": "none"}
        elif name.startswith("hop"):
            made["source"] = {"iceberg": {"table": self.feed(name), "max_files_per_trigger": 10}}
            made |= {"lineage": "none", "decode": None}
        elif name == "newer":
            made |= {
                "transform": {"sql": "SELECT *, 100 DIV (n - 7) AS part FROM source"},
                "restart": {"max_backoff": "1s"},
            }
        if name == "bad":
            del made["quarantine"]
        if (kind := name.split("_")[0]) in OTHER_SINKS:
            made["sink"] = self._sink(kind, name, table)
        own = self.specs[name](self) if name in self.specs else {}
        self.desk.write({key: value for key, value in {**made, **own, **more}.items() if value is not None})

    def _sink(self, kind: str, name: str, table: str) -> dict[str, Any]:
        return {
            "delta": {"delta": {"table": table}},
            "postgres": {"postgres": {"connection": "there", "table": table}},
            "folder": {"files": {"path": str(self.path(name)), "format": "json"}},
            "topic": {"kafka": {"topic": self.topics[name] + "-out"}},
        }[kind]

    def path(self, name: str) -> Path:
        """The folder of a file sink."""
        return self.folder / "out" / self.ids[name]

    def stream(self, name: str) -> str:
        return self.ids[name]

    def topic(self, name: str) -> str:
        return self.topics[name]

    def table(self, name: str) -> Any:
        return self.desk.world.catalog().load_table(f"{self.desk.world.name}.{name}")

    def checkpoint(self, name: str) -> Path:
        with self.desk.world.connect() as connection:
            row = streams.get(connection, self.ids[name])
            found = generations.get(connection, row.id, row.generation)
        assert found is not None
        return Path(self.desk.world.runtime.checkpoint_of(found.checkpoint).removeprefix("file://"))

    def later(self, name: str) -> None:
        """The topic of a stream is made."""
        self.desk.world.wait_for("the topic to be gone", lambda: self._make(name), 60)

    def _make(self, name: str) -> bool:
        from lakeward.stack.kafka import create_topic

        return create_topic(self.desk.world.kafka.bootstrap, self.topics[name], 1)

    def send(self, name: str) -> None:
        """Five records, none of which is 7."""
        first = 100 + self.sent[name]
        self.sent[name] += 5
        if name.startswith("hop"):
            self.append(name, range(first, first + 5))
        elif name.startswith("files"):
            rows = [json.dumps({"n": n, "s": f"row {n}"}) for n in range(first, first + 5)]
            if name == "files_csv":
                rows = ["n,s", *(f"{n},row {n}" for n in range(first, first + 5))]
            (self.folder / name / f"{first}.{'csv' if name == 'files_csv' else 'json'}").write_text("\n".join(rows))
        else:
            self.desk.world.numbers(self.topics[name], range(first, first + 5))

    def land(self, name: str) -> None:
        """One more batch."""
        seq = self.seq(name)
        self.send(name)
        self.desk.world.wait_for("the batch", lambda: self.seq(name) > seq)

    def seq(self, name: str) -> int:
        """The number of landed batches; of a sink that counts none, the number of the next one."""
        if name.split("_")[0] in OTHER_SINKS:
            safe = self.desk.status(self.ids[name])["safe_to"] or {"seq": 0}
            return int(safe["batch_id"] + 1 if safe["seq"] is None else safe["seq"])
        return int((self.desk.world.position(f"{self.desk.world.name}.{name}", self.ids[name]) or {"seq": 0})["seq"])

    @contextmanager
    def coming(self, name: str) -> Iterator[None]:
        """Records come all the time: a new generation is proven by batches."""
        with repeating(lambda: self.send(name), 1.0):
            yield

    @contextmanager
    def stopped(self, name: str, *, sending: bool = True) -> Iterator[None]:
        """The stream stopped; it is started again, and records come."""
        self.desk.done(f"lakeward streams stop {self.ids[name]} --wait")
        yield
        if sending:
            self.send(name)
        self.desk.done(f"lakeward streams start {self.ids[name]}")

    def settle(self, name: str) -> None:
        self.desk.world.wait_for("a batch", lambda: self.desk.status(self.ids[name])["state"] == "healthy")

    def renew(self, name: str, **more: Any) -> str:
        """Give the stream a new id and a new table, as the text says; returns the old id."""
        old = self.ids[name]
        (self.desk.project / "conf" / "streams" / f"{old}.yaml").unlink()
        self.ids[name] += "2"
        self.write(name, **more)
        return old

    def kill(self) -> None:
        """SIGKILL of the driver and its JVM."""
        os.killpg(self.pid, signal.SIGKILL)

    def freeze(self) -> None:
        """SIGSTOP of the driver and its JVM."""
        os.killpg(self.pid, signal.SIGSTOP)

    @property
    def pid(self) -> int:
        with self.desk.world.connect() as connection:
            row = drivers.find(connection, "town")
        assert row is not None
        assert row.handle is not None
        return int(row.handle["pid"])

    def feed(self, name: str) -> str:
        """The table that a stream reads."""
        return f"{self.desk.world.name}.{name}_feed"

    def append(self, name: str, numbers: Sequence[int]) -> None:
        """Rows for a stream that reads a table, which is created if there is none."""
        import pyarrow as pa

        catalog = self.desk.world.catalog()
        rows = pa.table({"n": pa.array(list(numbers), pa.int64()), "s": [f"row {n}" for n in numbers]})
        catalog.create_namespace_if_not_exists(self.desk.world.name)
        catalog.create_table_if_not_exists(self.feed(name), rows.schema).append(rows)

    def walk(self, name: str, correct: Callable[[], None] = lambda: None) -> list[str]:
        """Wait for the trouble, type the first way of `next` until the stream is healthy, and demand an exact audit."""
        down = ("blocked", "stalled", "restarting", "unknown")
        seen: list[dict[str, Any]] = []

        def troubled() -> bool:
            seen.append(self.desk.status(self.ids[name]))
            return seen[-1]["state"] in down

        try:
            self.desk.world.wait_for("the trouble", troubled, 300)
        except AssertionError as error:
            error.add_note(f"it is {seen[-1]['state']}: {seen[-1]['why']}")
            raise
        said = self.desk.healthy_by_its_next(lambda: self.ids[name], correct)
        self.exact(name)
        return said

    def walk_to_a_new_id(self, name: str, opening: str = "give the stream a new id and a new table") -> None:
        """`next` asks for a new id and a new table at once; afterwards no list sends anybody to the old stream."""
        old = self.stream(name)

        def renew_once() -> None:
            if self.stream(name) == old:
                self.renew(name)

        said = self.walk(name, renew_once)
        assert said[0].startswith(opening), said
        code, told = self.desk.type("lakeward streams list", "-o", "json")
        assert code == 0, told
        assert old not in {row["id"] for row in json.loads(told)["streams"]}

    def exact(self, name: str) -> None:
        """No record is missing or doubled; windows have no rows to compare. A sink without an audit is read here."""
        if name.startswith(("folder", "topic")):
            found = sorted(self.read(name))
            sent = list(range(100, 100 + self.sent[name]))
            assert (found if name.startswith("folder") else sorted(set(found))) == sent
            return
        if name.startswith(("hop", "files")):
            self.desk.world.wait_for("every row", lambda: self.there(name) <= set(self.numbers(name)))
            assert self.numbers(name) == sorted(self.there(name))
        code, told = self.desk.type(f"lakeward streams audit {self.ids[name]}", "-o", "json")
        found = json.loads(told)
        counted = (None, None) if found["lineage"] == "none" else (0, 0)
        assert (code, found["missing"], found["duplicates"]) == (0, *counted), told

    def numbers(self, name: str) -> list[int]:
        """The numbers in the table of a stream, sorted."""
        table = f"{self.desk.world.name}.{self.ids[name].removeprefix(self.desk.world.name + '_')}"
        return sorted(row["n"] for row in self.desk.world.rows(table))

    def there(self, name: str) -> set[int]:
        """The numbers in the folder, or in the table, that a stream reads."""
        if name.startswith("hop"):
            return {row["n"] for row in self.desk.world.rows(self.feed(name))}
        files = list((self.folder / name).iterdir())
        lines = [line for file in files for line in file.read_text().splitlines()]
        return {int(found[0]) for line in lines if (found := re.search(r"\d+", line))}

    def read(self, name: str) -> list[int]:
        """The numbers in a folder of files, or in the topic that a stream writes to."""
        if name.startswith("folder"):
            files = self.path(name).glob("seq=*/*.json")
            return [json.loads(line)["n"] for file in files for line in file.read_text().splitlines()]
        from confluent_kafka import Consumer, TopicPartition

        reader = Consumer({"bootstrap.servers": self.desk.world.kafka.bootstrap, "group.id": uuid4().hex})
        part = TopicPartition(f"{self.topics[name]}-out", 0, 0)
        _, end = reader.get_watermark_offsets(part, timeout=30)
        reader.assign([part])
        found = [json.loads(record.value()) for record in reader.consume(end, timeout=30)]
        reader.close()
        return [row["n"] for row in found]

    def end(self) -> None:
        with suppress(Exception):
            os.killpg(self.pid, signal.SIGKILL)
        self.desk.world.end()
