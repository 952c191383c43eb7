"""Java is found, or the exact command that installs it is said. The `java` here is a script: a program of others."""

from __future__ import annotations

from pathlib import Path

import pytest

from lakeward.jars.java import find_java, install_command
from lakeward.platform.errors import Unhealthy


def fake_java(folder: Path, text: str) -> Path:
    """A `java` that says `text` when asked for its version."""
    binary = folder / "bin" / "java"
    binary.parent.mkdir(parents=True)
    binary.write_text(f"#!/bin/sh\necho '{text}' >&2\n")
    binary.chmod(0o755)
    return binary


def test_missing(tmp_path: Path) -> None:
    with pytest.raises(Unhealthy, match="Java is missing") as found:
        find_java({"PATH": str(tmp_path)})
    assert found.value.exit_code == 3
    assert "17" in found.value.next


@pytest.mark.parametrize(
    ("says", "major"), [('java version "1.8.0_402"', 8), ('openjdk version "11.0.22" 2024-01-16', 11)]
)
def test_too_old(tmp_path: Path, says: str, major: int) -> None:
    binary = fake_java(tmp_path, says)
    with pytest.raises(Unhealthy, match=f"Java {major} is too old") as found:
        find_java({"PATH": str(binary.parent)})
    assert str(binary) in found.value.why
    assert "JAVA_HOME" in found.value.next


def test_does_not_run(tmp_path: Path) -> None:
    binary = fake_java(tmp_path, "cannot allocate memory")
    with pytest.raises(Unhealthy, match="does not run"):
        find_java({"PATH": str(binary.parent)})


@pytest.mark.parametrize(("says", "major"), [('openjdk version "17.0.15" 2025-04-15', 17), ('java version "21"', 21)])
def test_good_enough(tmp_path: Path, says: str, major: int) -> None:
    binary = fake_java(tmp_path, says)
    java = find_java({"PATH": str(binary.parent)})
    assert java.major == major
    assert java.home == tmp_path


def test_java_home_comes_before_path(tmp_path: Path) -> None:
    fake_java(tmp_path / "home", 'openjdk version "21.0.1"')
    on_path = fake_java(tmp_path / "path", 'openjdk version "17.0.1"')
    assert find_java({"JAVA_HOME": str(tmp_path / "home"), "PATH": str(on_path.parent)}).major == 21
    assert find_java({"JAVA_HOME": str(tmp_path / "gone"), "PATH": str(on_path.parent)}).major == 17


@pytest.mark.parametrize(
    ("system", "has", "command"),
    [
        ("Linux", "apt-get", "sudo apt-get install -y openjdk-17-jre-headless"),
        ("Linux", "dnf", "sudo dnf install -y java-17-openjdk-headless"),
        ("Darwin", "brew", "brew install openjdk@17"),
        ("Linux", "nothing", "install Java 17 from https://adoptium.net"),
    ],
)
def test_the_install_command_fits_the_platform(system: str, has: str, command: str) -> None:
    assert install_command(system, lambda name: f"/usr/bin/{name}" if name == has else None).startswith(command)
