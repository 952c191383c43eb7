"""What the supervisor runs for a part."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Program:
    """A program in the foreground.

    Attributes:
        command: absolute path of the program, then its arguments; never a secret in it.
        environment: the whole environment; the file it stands in is 0600.
        stop: the signal of a clean stop.
        stop_wait_s: after that it is killed.
        folder: its working folder.
    """

    command: list[str]
    environment: dict[str, str]
    stop: str = "TERM"
    stop_wait_s: int = 20
    folder: str = "/"
