"""Producer thread: sends in its own thread; its errors are raised in the waiting thread."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable

from lakeward.demo.flights import Record
from lakeward.demo.producer import Sender
from lakeward.platform.errors import LakewardError


class Producing:
    """Sends while the block runs; leaving the block waits for the last record.

    Args:
        sender: the producer.
        records: the records.
        per_second: the rate.
        release: called if the block raises; it unblocks the iterator of records.
    """

    def __init__(
        self, sender: Sender, records: Iterable[Record], per_second: float, release: Callable[[], None]
    ) -> None:
        self._failed: LakewardError | None = None
        self._release = release
        self._stop = threading.Event()

        def send() -> None:
            try:
                sender.send(records, per_second=per_second, stop=self._stop)
            except LakewardError as error:
                self._failed = error

        self._thread = threading.Thread(target=send, name="producer", daemon=True)

    def __enter__(self) -> Producing:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, *rest: object) -> None:
        if kind is not None:
            self._stop.set()
            self._release()
        self._thread.join()
        if kind is None:
            self.raise_if_failed()

    def raise_if_failed(self) -> None:
        """Raise the error of the sender, if any."""
        if self._failed is not None:
            raise self._failed
