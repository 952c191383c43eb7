"""Cached readings: many clients cost the registry one reading, and a reading that fails leaves the last one, with its
age and the reason."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Generic, TypeVar

from lakeward.platform.errors import LakewardError
from lakeward.telemetry.mask import mask

T = TypeVar("T")
MOST_KEYS = 256
"""Readings that are kept; the one that was used least recently goes first."""


@dataclass(frozen=True)
class Reading(Generic[T]):
    """What was read.

    Attributes:
        age_s: seconds since it was read.
        stale: why it could not be read again; None if it was read just now, or less than the cache's time ago.
    """

    value: T
    age_s: float = 0.0
    stale: str | None = None


class _Entry(Generic[T]):
    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.at = float("-inf")
        self.value: T | None = None
        self.failure: tuple[float, LakewardError] | None = None


class Cache(Generic[T]):
    """Readings by key.

    Args:
        fresh_s: a reading younger than this is used again. After a failure no other try is made for as long.
    """

    def __init__(self, fresh_s: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._fresh_s, self._clock = fresh_s, clock
        self._lock = threading.Lock()
        self._entries: OrderedDict[str, _Entry[T]] = OrderedDict()

    def get(self, key: str, read: Callable[[], T]) -> Reading[T]:
        """The reading of a key; callers at the same time share one.

        Raises:
            LakewardError: it cannot be read, and never was.
        """
        entry = self._entry(key)
        with entry.lock:
            now = self._clock()
            if entry.value is not None and now - entry.at < self._fresh_s:
                return Reading(entry.value, now - entry.at)
            if entry.failure is not None and now - entry.failure[0] < self._fresh_s:
                return self._last(entry, entry.failure[1])
            try:
                entry.value = read()
            except LakewardError as error:
                entry.failure = (self._clock(), error)
                return self._last(entry, error)
            entry.at, entry.failure = self._clock(), None
            return Reading(entry.value)

    def _entry(self, key: str) -> _Entry[T]:
        with self._lock:
            entry = self._entries.setdefault(key, _Entry())
            self._entries.move_to_end(key)
            if len(self._entries) > MOST_KEYS:
                self._entries.popitem(last=False)
            return entry

    def _last(self, entry: _Entry[T], error: LakewardError) -> Reading[T]:
        if entry.value is None:
            raise error
        why = mask(f"{error.what}: {error.why}" if error.why else error.what)
        return replace(Reading(entry.value), age_s=self._clock() - entry.at, stale=why)
