"""A stream's schedule: when its last run was due. Pure; cron fields are in UTC, as Airflow reads them here."""

from __future__ import annotations

from datetime import UTC, datetime

from croniter import croniter


def last_due(schedule: str, now: datetime) -> datetime:
    """The newest moment of the schedule that is not after `now`."""
    moment: datetime = croniter(schedule, now.astimezone(UTC)).get_prev(datetime)
    here = now.astimezone(UTC).replace(second=0, microsecond=0)
    return here if croniter.match(schedule, here) else moment
