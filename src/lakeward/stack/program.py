"""Program of a part, as the supervisor runs it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Program:
    """A program in the foreground.

    Attributes:
        command: absolute path of the program and its arguments, without secrets.
        environment: the complete environment, stored in a 0600 file.
        stop: the signal of a clean stop.
        stop_wait_s: time until the program is killed.
        folder: working directory.
    """

    command: list[str]
    environment: dict[str, str]
    stop: str = "TERM"
    stop_wait_s: int = 20
    folder: str = "/"
