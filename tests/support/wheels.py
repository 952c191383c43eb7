"""Packages made by a test, and an index of them that needs no network."""

from __future__ import annotations

import hashlib
import zipfile
from pathlib import Path


def wheel(folder: Path, name: str, version: str, text: str) -> str:
    """Write a wheel with one module; gives its line of a requirements file."""
    about = f"{name}-{version}.dist-info"
    file = folder / f"{name}-{version}-py3-none-any.whl"
    files = {
        f"{name}.py": text,
        f"{about}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n",
        f"{about}/WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    record = "".join(f"{path},,\n" for path in [*files, f"{about}/RECORD"])
    with zipfile.ZipFile(file, "w") as archive:
        for path, content in {**files, f"{about}/RECORD": record}.items():
            archive.writestr(path, content)
    return f"{name}=={version} --hash=sha256:{hashlib.sha256(file.read_bytes()).hexdigest()}"


def index(folder: Path) -> Path:
    """A configuration of uv that finds packages in `folder` and nowhere else; for `UV_CONFIG_FILE`."""
    file = folder / "uv.toml"
    file.write_text(f'no-index = true\nfind-links = ["{folder}"]\n')
    return file
