"""What `gx_odd.py` asks three engines about: odd arguments, as public suites have them, and odd data."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

Kwargs = dict[str, Any]
CASES: tuple[tuple[str, str, Kwargs, str], ...] = tuple(
    tuple(json.loads(line)) for line in Path(__file__).with_suffix(".jsonl").read_text(encoding="utf-8").splitlines()
)
"""What is odd, the expectation, its arguments, and the data set; a line of the file each."""

_ROWS = (
    "SELECT id, if(id = 10, null, int(id)) n, "
    "CASE id WHEN 1 THEN double('NaN') WHEN 2 THEN double('Infinity') WHEN 3 THEN double('-Infinity') "
    "WHEN 4 THEN null ELSE id / 4D END x, "
    "float(0.1) f, CAST(id + 0.1 AS DECIMAL(10,2)) price, "
    "CAST('12345678901234567890123456789012345678' AS DECIMAL(38,0)) big, concat('0', id) code, "
    "CASE WHEN id <= 6 THEN 'paid' WHEN id <= 8 THEN 'open' WHEN id = 9 THEN 'bad' END pay, "
    "date_add(DATE'2026-01-01', int(id) - 1) day, timestamp_seconds(1767268800 + (id - 1) * 3600) at, "
    "date_format(date_add(DATE'2026-01-01', int(id) - 1), 'yyyy-MM-dd') day_text, "
    "id % 2 = 0 flag, int(id % 3) mod, int(1) one, string(null) blank, int(null) void, "
    "CASE id WHEN 1 THEN '\\u0663' WHEN 2 THEN 'gr\\u00fcn' WHEN 3 THEN 'a\\nb' WHEN 4 THEN '' WHEN 5 THEN ' x ' "
    "WHEN 6 THEN 'a1' WHEN 7 THEN 'A1' WHEN 8 THEN 'ab\\n' WHEN 9 THEN '\\U0001F600' ELSE 'aaa' END txt, "
    "array(int(id), 2) arr, named_struct('a', int(id), 'b', 'x') st, map('k', int(id)) kv, "
    'double(id) `geo.lat`, int(id) `two words`, int(id) `back``tick`, int(id) `quo"te`, int(id) `gr\u00f6\u00dfe`, '
    "id orderId FROM range(1, 11)"
)
DATA = {"odd": _ROWS, "empty": f"SELECT * FROM ({_ROWS}) WHERE id < 0"}
"""Ten rows: of `n` and `pay` one has no value, `mod` has 0 three times, `geo.lat` is 1 to 10."""
