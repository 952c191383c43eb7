"""The stream driver for clusters: `spark-submit spark_jobs/stream_driver.py LAUNCH.json`.

On one machine a backend starts `python -m lakeward.driver LAUNCH.json`, which is the same.
"""

from __future__ import annotations

import sys

from lakeward.driver.__main__ import end, main

if __name__ == "__main__":
    end(main(sys.argv[1:]))
