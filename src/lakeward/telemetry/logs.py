"""structlog configuration: readable lines on a terminal, JSON lines in a rotated file for drivers.

Inside Airflow nothing is configured: Airflow 3 logs with structlog itself and shows the fields.
"""

from __future__ import annotations

import logging
import logging.handlers
import sys
from pathlib import Path

import structlog

MAX_BYTES = 20 * 1024 * 1024
BACKUPS = 5

# Without local variables, which the default includes: they contain tokens and passwords.
_TRACEBACKS = structlog.processors.ExceptionRenderer(structlog.tracebacks.ExceptionDictTransformer(show_locals=False))

_SHARED: list[structlog.typing.Processor] = [
    structlog.contextvars.merge_contextvars,
    structlog.stdlib.add_log_level,
    structlog.stdlib.add_logger_name,
    structlog.processors.TimeStamper(fmt="iso", utc=True),
    structlog.processors.StackInfoRenderer(),
]


def to_file(file: Path, level: int = logging.INFO) -> None:
    """Send every log of this process, structlog's and stdlib's, as JSON lines to a rotated file."""
    file.parent.mkdir(parents=True, exist_ok=True)
    handler = logging.handlers.RotatingFileHandler(file, maxBytes=MAX_BYTES, backupCount=BACKUPS, encoding="utf-8")
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=_SHARED,
            processors=[
                structlog.stdlib.ProcessorFormatter.remove_processors_meta,
                _TRACEBACKS,
                structlog.processors.JSONRenderer(),
            ],
        )
    )
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level)
    logging.getLogger("py4j").setLevel(logging.WARNING)  # otherwise one line for each call
    structlog.configure(
        processors=[*_SHARED, structlog.stdlib.ProcessorFormatter.wrap_for_formatter],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.make_filtering_bound_logger(level),
        cache_logger_on_first_use=False,
    )


def to_stderr(level: int = logging.WARNING) -> None:
    """Short lines on stderr, for the command line."""
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.dev.ConsoleRenderer(colors=False),
        ],
        logger_factory=lambda *_: structlog.PrintLogger(sys.stderr),  # the stderr at the time of the call
        wrapper_class=structlog.make_filtering_bound_logger(level),
    )
