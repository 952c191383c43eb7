"""Acts that die where a test says so, and a home whose registry knows the stream."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from lakeward.platform.runtime import Home
from lakeward.registry import generations, streams
from lakeward.registry.engine import connect
from lakeward.spec.model.stream import StreamSpec


class Died(RuntimeError):
    """The act's process is gone, as far as the tables can tell."""


def at(nth: int, act: Callable[[], Any]) -> Callable[[], None]:
    """A hook that acts when this thread passes it for the n-th time; a stream beside it has threads of its own."""
    passed = []

    def hook() -> None:
        if threading.current_thread() is not threading.main_thread():
            return
        passed.append(1)
        if len(passed) == nth:
            act()

    return hook


def die() -> None:
    """A hook."""
    raise Died


def deployed(lab: Any, postgres: Any, document: dict[str, Any]) -> Path:
    """A home whose registry has the stream, in generation 2."""
    home, url = Home(lab.folder / "home"), postgres.url(postgres.create_registry())
    home.secrets.mkdir(parents=True)
    home.registry_url_file.write_text(url)
    shutil.copy2(postgres.pgpass, home.pgpass)
    runtime = lab.runtime.model_copy(update={"registry_url_file": home.registry_url_file, "pgpass": postgres.pgpass})
    home.runtime_file.write_text(runtime.model_dump_json())
    spec = StreamSpec.model_validate(document)
    with connect(url, postgres.pgpass) as connection:
        streams.accept(connection, str(spec.id), generation=2, driver="d", desired="stopped")
        generations.add(
            connection, stream=str(spec.id), generation=2, spec=spec.document(), digest="d", sql=None, code={},
            versions={}, author="tests", checkpoint="s/2",
        )  # fmt: skip
    return home.root
