"""Cached readings: many clients cost the registry one reading, and none of them waits while there is a recent one.

A reading that fails leaves the last one, with its age and the reason.
"""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

from lakeward.platform.errors import LakewardError, expect
from lakeward.telemetry.mask import mask

T = TypeVar("T")
PAUSE = 4.0
"""A reading is fresh for at least this many times the CPU-seconds that it took: with thousands of streams the process,
which is Airflow's API server, answers other requests most of the time."""
MOST_KEYS = 256
"""Readings that are kept; the one that was used least recently goes first."""


@dataclass(frozen=True)
class Reading(Generic[T]):
    """What was read.

    Attributes:
        age_s: seconds since it was read.
        stale: why it could not be read again; None if the last try succeeded.
    """

    value: T
    age_s: float = 0.0
    stale: str | None = None


class _Entry(Generic[T]):
    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.at = float("-inf")
        self.cost_s = 0.0
        self.value: T | None = None
        self.failure: tuple[float, LakewardError] | None = None


class Cache(Generic[T]):
    """Readings by key.

    Args:
        fresh_s: a reading younger than this is used as it is. After a failure no other try is made for as long.
        recent_s: one younger than this is used while it is read again in the background; an older one is waited for.
        cpu: seconds of CPU that the thread has used.
    """

    def __init__(
        self,
        fresh_s: float,
        recent_s: float | None = None,
        clock: Callable[[], float] = time.monotonic,
        cpu: Callable[[], float] = time.thread_time,
    ) -> None:
        self._fresh_s, self._clock, self._cpu = fresh_s, clock, cpu
        self._recent_s = 5 * fresh_s if recent_s is None else recent_s
        self._lock = threading.Lock()
        self._entries: OrderedDict[str, _Entry[T]] = OrderedDict()

    def get(self, key: str, read: Callable[[], T]) -> Reading[T]:
        """The reading of a key; callers at the same time share one.

        Raises:
            LakewardError: it cannot be read, and never was.
        """
        entry = self._entry(key)
        age_s = self._clock() - entry.at
        if entry.value is not None and age_s < max(self._recent_s, 2 * self._fresh(entry)):
            if age_s >= self._fresh(entry) and not self._failed(entry) and not entry.lock.locked():
                threading.Thread(target=self._renew, args=(entry, read), name="lakeward-reading", daemon=True).start()
            return self._last(entry)
        self._renew(entry, read)
        return self._last(entry)

    def _renew(self, entry: _Entry[T], read: Callable[[], T]) -> None:
        """Read, unless another caller just did or it failed a moment ago."""
        with entry.lock:
            if self._clock() - entry.at < self._fresh(entry) or self._failed(entry):
                return
            begun_s = self._cpu()
            try:
                value = read()
            except LakewardError as error:
                entry.failure = (self._clock(), error)
                return
            entry.value, entry.at, entry.failure = value, self._clock(), None
            entry.cost_s = self._cpu() - begun_s

    def _fresh(self, entry: _Entry[T]) -> float:
        return max(self._fresh_s, PAUSE * entry.cost_s)

    def _failed(self, entry: _Entry[T]) -> bool:
        return entry.failure is not None and self._clock() - entry.failure[0] < self._fresh_s

    def _entry(self, key: str) -> _Entry[T]:
        with self._lock:
            entry = self._entries.setdefault(key, _Entry())
            self._entries.move_to_end(key)
            if len(self._entries) > MOST_KEYS:
                self._entries.popitem(last=False)
            return entry

    def _last(self, entry: _Entry[T]) -> Reading[T]:
        failure = None if entry.failure is None else entry.failure[1]
        if entry.value is None:
            raise expect(failure, "the failure of a reading without a value")
        why = None
        if failure is not None:
            why = mask(f"{failure.what}: {failure.why}" if failure.why else failure.what)
        return Reading(entry.value, self._clock() - entry.at, why)
