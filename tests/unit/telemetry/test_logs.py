from __future__ import annotations

import json
import subprocess
import sys

WRITE = """
import logging, sys
from pathlib import Path
import structlog
from lakeward.telemetry import logs
logs.to_file(Path(sys.argv[1]))
structlog.get_logger("lakeward.x").info("batch landed", stream="flights", rows=3)
logging.getLogger("py4j.java_gateway").info("noise")
logging.getLogger("other").warning("careful")
password = "hunter2-in-a-local-variable"
try:
    1 / 0
except ZeroDivisionError:
    structlog.get_logger("lakeward.x").exception("it broke")
"""


def test_every_log_is_a_json_line_with_its_fields(tmp_path):
    file = tmp_path / "driver.log"
    subprocess.run([sys.executable, "-c", WRITE, str(file)], check=True)
    assert "hunter2" not in file.read_text()
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    assert [line["event"] for line in lines] == ["batch landed", "careful", "it broke"]
    assert (lines[0]["stream"], lines[0]["rows"], lines[0]["level"]) == ("flights", 3, "info")
    assert lines[2]["exception"][0]["exc_type"] == "ZeroDivisionError"


def test_the_file_rotates_and_old_ones_go(tmp_path):
    file = tmp_path / "driver.log"
    shrink = "from lakeward.telemetry import logs\nlogs.MAX_BYTES, logs.BACKUPS = 2000, 2\n"
    flood = "\nfor number in range(200):\n    structlog.get_logger('x').info('batch landed', number=number)\n"
    subprocess.run([sys.executable, "-c", shrink + WRITE + flood, str(file)], check=True)
    kept = sorted(tmp_path.iterdir())
    assert [item.name for item in kept] == ["driver.log", "driver.log.1", "driver.log.2"]
    assert all(item.stat().st_size <= 2200 for item in kept)
