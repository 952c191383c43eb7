"""Keeps a container's program running: `python -m lakeward.stack.container_keep COMMAND ..`.

A container ends with its first process, and every process in it with the container. Airflow's scheduler ends itself
when PostgreSQL is away for a moment; the drivers that its tasks started would end too. So it is started again inside
its container. SIGTERM ends the program and then the container. Nothing but the standard library: it costs no memory.
"""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
from types import FrameType

PAUSE_S = 2.0


class Keeper:
    """One program, started again whenever it ends."""

    def __init__(self, command: list[str], pause_s: float = PAUSE_S) -> None:
        self.command = command
        self.pause_s = pause_s
        self.stopping = threading.Event()
        self.child: subprocess.Popen[bytes] | None = None

    def stop(self, number: int, frame: FrameType | None) -> None:
        """Handle a signal: end the program, and start it no more."""
        self.stopping.set()
        if self.child is not None:
            self.child.send_signal(number)

    def run(self) -> int:
        """Run the program until a signal; returns the exit code of its last run."""
        while True:
            self.child = subprocess.Popen(self.command)
            if self.stopping.is_set():  # the signal came while it was started
                self.child.terminate()
            code = self.child.wait()
            if self.stopping.is_set():
                return code
            sys.stderr.write(f"{' '.join(self.command)} ended with {code}; it is started again\n")
            if self.stopping.wait(self.pause_s):
                return code


def main(arguments: list[str]) -> int:
    """Entry point; returns the exit code."""
    keeper = Keeper(arguments)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, keeper.stop)
    return keeper.run()


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
