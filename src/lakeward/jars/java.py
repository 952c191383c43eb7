"""Java discovery: `JAVA_HOME`, then `PATH`. Java is the only requirement that a user must install."""

from __future__ import annotations

import os
import platform
import re
import shutil
import subprocess
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from lakeward.platform.errors import Unhealthy

OLDEST = 17  # the oldest version that Spark 4 supports
DEEP_STACK = "-Xss4m"
"""Stack of a JVM thread. Spark recurses over a plan: the default of a megabyte ends at a few hundred columns."""
ROOM_FOR_CLASSES = "-XX:MetaspaceSize=256m"
"""Without it Java collects its whole heap each time classes pass a threshold that begins at 21 MB: twice in the first
minute of a driver. It reserves nothing."""


@dataclass(frozen=True)
class Java:
    """An installed Java that runs.

    Attributes:
        binary: the `java` program, without symbolic links.
        major: its feature version, e.g. 17.
    """

    binary: Path
    major: int

    @property
    def home(self) -> Path:
        """The value for `JAVA_HOME`."""
        return self.binary.parent.parent


def find_java(environ: Mapping[str, str] | None = None) -> Java:
    """The Java that Lakeward uses.

    Raises:
        Unhealthy: Java is missing, does not run, or is older than 17; `next` is the install command of the platform.
    """
    env = os.environ if environ is None else environ
    program = locate(env)
    if program is None:
        raise Unhealthy(
            "Java is missing",
            why=f"no `java` in JAVA_HOME or on PATH; Spark and Kafka need Java {OLDEST} or 21",
            next=install_command(),
            code="LW-7210",
        )
    major = _major(program)
    if major is None:
        raise Unhealthy(
            "Java does not run", why=f"`{program} -version` printed no version", next=install_command(), code="LW-7211"
        )
    if major < OLDEST:
        raise Unhealthy(
            f"Java {major} is too old",
            why=f"{program} is Java {major}; Spark and Kafka need Java {OLDEST} or 21",
            next=f"{install_command()}   (or set JAVA_HOME to a Java {OLDEST} or 21)",
            code="LW-7212",
        )
    return Java(program.resolve(), major)


def install_command(system: str | None = None, which: Callable[[str], str | None] = shutil.which) -> str:
    """The command that installs a supported Java on this platform."""
    if (system or platform.system()) == "Darwin":
        return "brew install openjdk@17 && export JAVA_HOME=$(brew --prefix openjdk@17)"
    commands = {
        "apt-get": "sudo apt-get install -y openjdk-17-jre-headless",
        "dnf": "sudo dnf install -y java-17-openjdk-headless",
        "yum": "sudo yum install -y java-17-openjdk-headless",
        "zypper": "sudo zypper install -y java-17-openjdk-headless",
        "pacman": "sudo pacman -S --noconfirm jre17-openjdk-headless",
        "apk": "sudo apk add openjdk17-jre-headless",
    }
    for manager, command in commands.items():
        if which(manager):
            return command
    return "install Java 17 from https://adoptium.net and set JAVA_HOME to it"


def locate(env: Mapping[str, str]) -> Path | None:
    """The path of `java`, without running it."""
    home = env.get("JAVA_HOME")
    if home and os.access(Path(home) / "bin" / "java", os.X_OK):
        return Path(home) / "bin" / "java"
    on_path = shutil.which("java", path=env.get("PATH", ""))
    return Path(on_path) if on_path else None


def _major(java: Path) -> int | None:
    try:
        done = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=30, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    match = re.search(r'version "(\d+)(?:\.(\d+))?', done.stderr + done.stdout)
    if not match:
        return None
    major = int(match[1])
    return int(match[2] or 0) if major == 1 else major  # Java 8 calls itself 1.8
