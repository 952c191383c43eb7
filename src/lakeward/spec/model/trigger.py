"""Triggers: when a stream runs its next batch, or real-time modes without batches."""

from __future__ import annotations

from typing import Any, Literal, Self

from pydantic import model_validator

from lakeward.spec.model.base import KeysProblem, SpecModel, only_one
from lakeward.spec.model.types import Cron, Duration, Span

UNBATCHED = ("real_time", "continuous")
"""Kinds without batches: Spark's tasks run continuously and pass on each record immediately."""
_BOUNDS = {"real_time": ("5s", "5m"), "continuous": ("1s", "1m")}
"""Shortest and longest checkpoint interval: Spark's minimum, and the time that a stop may wait."""


class Trigger(SpecModel):
    """Exactly one of: an interval, `available_now`, `real_time`, `continuous`."""

    one_of = ("trigger", ("every", "available_now", "real_time", "continuous"))

    every: Span | None = None
    """A batch at this interval, e.g. `10s`."""
    available_now: Literal[True] | None = None
    """Land all available records, then complete."""
    schedule: Cron | None = None
    """With `available_now`: when to run, as five cron fields in UTC."""
    real_time: Span | None = None
    """Spark's real-time mode, milliseconds end to end: stateless SQL from Kafka to Kafka or console, at least once. The
    duration (5s to 5m) is the checkpoint interval: a kill repeats up to one interval, and a stop waits for its end."""
    continuous: Span | None = None
    """Spark's older continuous processing, for the same streams; the duration (1s to 1m) is the checkpoint interval."""

    @model_validator(mode="before")
    @classmethod
    def _not_once(cls, data: Any) -> Any:
        if isinstance(data, dict) and "once" in data:
            message = "once reads everything in one batch of any size; use available_now: true with a "
            raise ValueError(message + 'schedule: it keeps the rate limits, for example schedule: "0 * * * *"')
        return data

    @model_validator(mode="after")
    def _one_kind(self) -> Self:
        kind = only_one(type(self), self._kinds())
        if self.schedule is not None and kind != "available_now":
            raise KeysProblem("schedule belongs to available_now; a stream that always runs has none", "schedule")
        if kind == "available_now" and self.schedule is None:
            raise KeysProblem('available_now needs a schedule, for example schedule: "0 * * * *"', "schedule")
        least, most = (Duration(bound) for bound in _BOUNDS.get(kind, ("0s", "0s")))
        if self.unbatched and self.interval is not None and not least.seconds <= self.interval.seconds <= most.seconds:
            why = f"{kind} {self.interval}: the interval of its checkpoint is between {least} and {most}"
            raise KeysProblem(f"{why}; rows leave at once, whatever it is", kind)
        return self

    def _kinds(self) -> dict[str, object]:
        return {name: getattr(self, name) for name in self.one_of[1]}

    @property
    def kind(self) -> str:
        """`every`, `available_now`, `real_time` or `continuous`."""
        return only_one(type(self), self._kinds())

    @property
    def unbatched(self) -> bool:
        """Whether it has no batches."""
        return self.kind in UNBATCHED

    @property
    def interval(self) -> Duration | None:
        """The interval, for kinds that have one."""
        return self.every or self.real_time or self.continuous
