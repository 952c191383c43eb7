"""A server that says nothing: its process is stopped by SIGSTOP, while its kernel goes on to acknowledge."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def stopped(process: subprocess.Popen[bytes]) -> Iterator[None]:
    """Stop a child of this process, and let it go on afterwards.

    The signal only asks. One thread of the process has to run to take it and stops the others, which serve requests
    until then: on a busy machine a request that was sent after the signal is still answered. The kernel reports a child
    as stopped when its last thread has stopped.
    """
    process.send_signal(signal.SIGSTOP)
    assert process.poll() is None, "the process has ended"
    try:
        os.waitid(os.P_PID, process.pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)
        assert process.poll() is None, "the process has ended"
        yield
    finally:
        process.send_signal(signal.SIGCONT)
