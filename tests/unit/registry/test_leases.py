from __future__ import annotations

import threading
import uuid
from datetime import timedelta

from sqlalchemy import text

from lakeward.registry import leases

TTL = timedelta(seconds=15)
OVER = timedelta(seconds=-1)


def test_a_live_lease_is_refused_to_another_token(registry):
    assert leases.take(registry, "stream", "flights", "one", "driver a", TTL)
    assert leases.take(registry, "stream", "flights", "two", "driver b", TTL) is None
    assert leases.current(registry, "stream")["flights"].token == "one"


def test_its_own_holder_may_take_it_again(registry):
    leases.take(registry, "stream", "flights", "one", "driver a", TTL)
    assert leases.take(registry, "stream", "flights", "one", "driver a", TTL)


def test_an_expired_lease_can_be_taken_over_and_its_former_holder_cannot_renew(registry):
    leases.take(registry, "stream", "flights", "one", "driver a", OVER)
    assert leases.take(registry, "stream", "flights", "two", "driver b", TTL)
    assert leases.renew(registry, "stream", ["flights"], "one", TTL) == set()


def test_an_expired_lease_nobody_took_is_renewed(registry):
    leases.take(registry, "stream", "flights", "one", "driver a", OVER)
    assert not leases.current(registry, "stream")["flights"].live
    assert leases.renew(registry, "stream", ["flights"], "one", TTL) == {"flights"}
    assert leases.current(registry, "stream")["flights"].live


def test_one_statement_renews_all_and_names_what_is_still_held(registry):
    leases.take(registry, "stream", "a", "one", "driver", TTL)
    leases.take(registry, "stream", "b", "two", "other driver", TTL)
    assert leases.renew(registry, "stream", ["a", "b"], "one", TTL) == {"a"}


def test_release_leaves_a_lease_taken_over_alone(registry):
    leases.take(registry, "stream", "a", "two", "newer driver", TTL)
    leases.release(registry, "stream", ["a"], "one")
    assert "a" in leases.current(registry, "stream")
    leases.release(registry, "stream", ["a"], "two")
    assert leases.current(registry, "stream") == {}


def test_expiry_is_counted_in_database_time(registry):
    lease = leases.take(registry, "stream", "a", "one", "driver", TTL)
    now = registry.execute(text("SELECT now()")).scalar_one()
    assert lease is not None
    assert lease.until - now == TTL


def test_of_many_takers_at_once_one_wins(other):
    name, winners, barrier = uuid.uuid4().hex, [], threading.Barrier(8)

    def take(token: str) -> None:
        with other() as connection:
            barrier.wait()
            if leases.take(connection, "race", name, token, token, TTL):
                winners.append(token)

    threads = [threading.Thread(target=take, args=(f"t{i}",)) for i in range(6)]
    barrier = threading.Barrier(len(threads))
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(winners) == 1
    with other() as connection:
        assert leases.current(connection, "race", [name])[name].token == winners[0]
