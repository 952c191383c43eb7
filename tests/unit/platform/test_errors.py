from __future__ import annotations

import pickle
import subprocess
import sys

import pytest

from lakeward.platform import errors

KINDS = [kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, errors.LakewardError)]


@pytest.mark.parametrize("kind", KINDS)
def test_an_error_survives_a_process_boundary(kind):
    sent = kind("the lake is dry", why="no rain", next="wait")
    back = pickle.loads(pickle.dumps(sent))
    assert (type(back), str(back)) == (kind, str(sent))


def test_a_blocked_stream_keeps_its_reason_across_a_process_boundary():
    assert pickle.loads(pickle.dumps(errors.Blocked("x", reason="gap"))).reason == "gap"


def test_the_text_says_what_why_and_next():
    text = str(errors.Refused("not allowed", why="held by ann", next="lakeward tables hold"))
    assert text.splitlines() == ["not allowed", "  why:  held by ann", "  next: lakeward tables hold"]


def test_exit_codes_are_those_of_the_contract():
    codes = {kind.__name__: kind.exit_code for kind in KINDS}
    assert codes["SpecError"] == 2
    assert codes["Unhealthy"] == 3
    assert codes["Refused"] == 4
    assert codes["TimedOut"] == 5
    assert codes["Fenced"] == 75


def test_a_value_that_must_be_there_is_given_back_or_is_a_bug():
    assert errors.expect(0, "a number") == 0
    with pytest.raises(errors.Internal, match="a number is missing"):
        errors.expect(None, "a number")


def test_a_value_that_must_be_of_a_type_is_given_back_or_is_a_bug():
    assert errors.expect_type(True, int, "the count") is True
    with pytest.raises(errors.Internal, match="the count is str, not int"):
        errors.expect_type("1", int, "the count")


def test_guards_hold_without_asserts():
    code = "from lakeward.platform.errors import *\ntry: expect(None, 'x')\nexcept Internal: print('held')"
    ran = subprocess.run([sys.executable, "-O", "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout == "held\n"
