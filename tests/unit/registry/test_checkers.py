"""Which checkers live, and for whom."""

from __future__ import annotations

from datetime import timedelta

from sqlalchemy import func, select, text

from lakeward.registry import checkers, leases


def test_a_checker_lives_for_its_place_until_its_signs_end(registry):
    checkers.record_heartbeat(registry, "checker a:1", "here")
    now = registry.execute(select(func.now())).scalar_one()
    assert checkers.alive(registry, "here")
    assert checkers.alive(registry, "here", since=now - timedelta(seconds=1))
    assert not checkers.alive(registry, "here", since=now + timedelta(seconds=1)), "an older sign proves nothing"
    assert not checkers.alive(registry, "elsewhere")
    registry.execute(text("UPDATE leases SET until = now() - interval '1 second' WHERE name = 'checker a:1'"))
    assert not checkers.alive(registry, "here")


def test_one_that_ends_is_gone_at_once_with_those_that_died(registry):
    for name in ("dead", "other", "own"):
        checkers.record_heartbeat(registry, name, "here")
    registry.execute(text("UPDATE leases SET until = now() - interval '1 second' WHERE name = 'dead'"))
    leases.take(registry, "stream", "s", "t", "d", timedelta(seconds=-1))
    checkers.record_exit(registry, "own")
    assert set(leases.current(registry, checkers.SCOPE)) == {"other"}
    assert set(leases.current(registry, "stream")) == {"s"}, "leases of others are not its business"
