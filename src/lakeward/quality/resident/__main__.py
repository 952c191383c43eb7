"""Entry point of the checker: `python -m lakeward.quality.resident`, with `LAKEWARD_HOME` and `LAKEWARD_PROJECT`.

Logs JSON lines to stdout. On SIGTERM it exits at the end of the run, or gives the run back.
"""

from __future__ import annotations

import logging
import signal
import sys

import structlog

from lakeward.platform.errors import LakewardError
from lakeward.platform.runtime import Home, Project
from lakeward.quality.resident.serve import Resident


def main() -> int:
    """Entry point. Returns 0 after SIGTERM or an upgrade of the code, else the exit code of the error."""
    logging.basicConfig(level=logging.WARNING, stream=sys.stderr)
    structlog.configure(
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.format_exc_info,
            structlog.processors.JSONRenderer(default=str),
        ],
        logger_factory=structlog.PrintLoggerFactory(sys.stdout),
        wrapper_class=structlog.make_filtering_bound_logger(logging.INFO),
    )
    project = Project.locate()
    try:
        resident = Resident(Home.locate(project=project), project)
        for each in (signal.SIGTERM, signal.SIGINT):
            signal.signal(each, resident.stop)
        resident.serve()
    except LakewardError as error:
        structlog.get_logger(__name__).error(error.what, why=error.why, next=error.next)
        return error.exit_code
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
