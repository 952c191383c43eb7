"""Prints each failure when it happens: a run of the gate takes tens of minutes, and its summary comes at the end."""

from __future__ import annotations

import pytest


class PrintFailures:
    """A pytest plugin of the process that reports; workers send their reports to it."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Print the test and the first line of its error."""
        terminal = self._config.pluginmanager.get_plugin("terminalreporter")
        if report.failed and terminal is not None:
            terminal.write_line(f"\nFAILED {report.nodeid} ({report.when}): {first_line(report)}", red=True)


def first_line(report: pytest.TestReport) -> str:
    """The first line of the error, without the trace."""
    crash = getattr(report.longrepr, "reprcrash", None)
    text = str(crash.message if crash is not None else report.longrepr).strip()
    return text.partition("\n")[0][:300]
