"""supervisord's configuration, and the tail a person is shown."""

from __future__ import annotations

from pathlib import Path

from lakeward.platform.runtime import Home
from lakeward.stack.supervisor import LONGEST_SOCKET_PATH, Supervisor, tail


def test_a_deep_home_still_gets_a_socket(tmp_path: Path) -> None:
    near = Supervisor(Home(Path("/h")))
    assert near.socket == Path("/h/supervisor/control")
    deep = Supervisor(Home(tmp_path / ("d" * 120)))
    assert len(str(deep.socket)) <= LONGEST_SOCKET_PATH
    assert deep.socket.parent.stat().st_mode & 0o077 == 0
    assert deep.socket == Supervisor(Home(tmp_path / ("d" * 120))).socket
    assert deep.socket != Supervisor(Home(tmp_path / ("e" * 120))).socket
    for one in (deep, Supervisor(Home(tmp_path / ("e" * 120)))):
        one.socket.parent.rmdir()


def test_the_tail_of_a_log(tmp_path: Path) -> None:
    log = tmp_path / "x.log"
    assert "does not exist" in tail(log)
    log.write_text("")
    assert "is empty" in tail(log)
    log.write_bytes(b"".join(b"line %d\n\n" % number for number in range(5000)) + b"\xff last\n")
    shown = tail(log, 3).split("\n")
    assert [line.strip() for line in shown] == ["line 4998", "line 4999", "\ufffd last"]
