"""An error keeps its code wherever it goes."""

from __future__ import annotations

import pickle

from lakeward.platform.errors import Blocked, Refused, code_in
from lakeward.quality.runs import request


def test_the_first_line_ends_with_the_code():
    error = Refused("Stream a cannot be stopped", why="it is not known", next="lakeward streams list", code="LW-2001")
    assert str(error).splitlines()[0] == "Stream a cannot be stopped [LW-2001]"
    assert code_in(str(error)) == "LW-2001"
    assert code_in("Stream a cannot be stopped\n  why: [LW-2001] stands elsewhere") is None
    assert code_in(None) is None


def test_it_crosses_process_boundaries_with_its_code():
    blocked = pickle.loads(pickle.dumps(Blocked("Offsets are missing", reason="gap", code="LW-3002")))
    assert (blocked.code, blocked.reason) == ("LW-3002", "gap")
    try:
        request.raise_line(request.error_line(Refused("no", code="LW-5001"))["failed"])
    except Refused as error:
        assert error.code == "LW-5001"
