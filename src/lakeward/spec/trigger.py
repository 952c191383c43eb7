"""When a stream takes its next batch."""

from __future__ import annotations

from typing import Any, Literal, Self

from pydantic import model_validator

from lakeward.spec.model import KeysProblem, SpecModel, only_one
from lakeward.spec.types import Cron, Duration, Span


class Trigger(SpecModel):
    """Exactly one of: every so often, what is there and end, real time, continuous."""

    one_of = ("trigger", ("every", "available_now", "real_time", "continuous"))

    every: Span | None = None
    """A batch at this interval, e.g. `10s`."""
    available_now: Literal[True] | None = None
    """Land what is there, then complete."""
    schedule: Cron | None = None
    """With `available_now`: when to run, as five cron fields in UTC."""
    real_time: Span | None = None
    """Spark's real-time mode; the duration is the checkpoint interval. Stateless Kafka to Kafka or console only."""
    continuous: Span | None = None
    """Spark's continuous processing; the duration is the checkpoint interval. Stateless Kafka to Kafka only."""

    @model_validator(mode="before")
    @classmethod
    def _not_once(cls, data: Any) -> Any:
        if isinstance(data, dict) and "once" in data:
            message = "once takes all that is there in one batch, however much it is; use available_now: true with a "
            raise ValueError(message + 'schedule: it keeps the caps, for example schedule: "0 * * * *"')
        return data

    @model_validator(mode="after")
    def _one_kind(self) -> Self:
        kind = only_one("trigger", self._kinds())
        if self.schedule is not None and kind != "available_now":
            raise KeysProblem("schedule belongs to available_now; a stream that always runs has none", "schedule")
        if kind == "available_now" and self.schedule is None:
            raise KeysProblem('available_now needs a schedule, for example schedule: "0 * * * *"', "schedule")
        return self

    def _kinds(self) -> dict[str, object]:
        return {name: getattr(self, name) for name in self.one_of[1]}

    @property
    def kind(self) -> str:
        """`every`, `available_now`, `real_time` or `continuous`."""
        return only_one("trigger", self._kinds())

    @property
    def interval(self) -> Duration | None:
        """The interval of the kinds that have one."""
        return self.every or self.real_time or self.continuous
