from __future__ import annotations

import os
import subprocess
import sys
import threading

from lakeward.demo.memory import Peak, tree_pss_bytes


def test_children_count_and_a_process_counts_once() -> None:
    code = "import time; block = bytearray(60_000_000); print('ready', flush=True); time.sleep(60)"
    child = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    try:
        assert child.stdout is not None
        assert child.stdout.readline() == "ready\n"
        alone = tree_pss_bytes([child.pid])
        assert alone > 50_000_000
        whole = tree_pss_bytes([os.getpid(), child.pid])
        assert whole < tree_pss_bytes([os.getpid()]) + alone // 2
        assert whole > alone
    finally:
        child.kill()
        child.communicate()
    assert tree_pss_bytes([child.pid]) == 0


def test_the_peak_is_the_largest_sample() -> None:
    done = threading.Event()
    samples = [3, 9, 4]

    def sample() -> int:
        if not samples:
            done.set()
            return 0
        return samples.pop()

    with Peak(sample, every_s=0.001) as peak:
        assert done.wait(30)
    assert peak.bytes == 9
