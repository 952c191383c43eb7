"""Streaks of departures on time, state per carrier."""

from pyspark.sql import Row
from pyspark.sql import functions as F
from pyspark.sql.streaming import StatefulProcessor

LATE_MINUTES = 15
GIVES = "carrier STRING, streak INT, best INT, departed BIGINT, last_ms BIGINT"


def board(source):
    """One row for each carrier that departed: its streak now, and its best."""
    found = (
        source.where("dep_delay IS NOT NULL")
        .withColumn("ms", F.unix_millis("scheduled_at"))
        .groupBy("carrier")
        .transformWithState(Streak(), GIVES, outputMode="Update", timeMode="None")
    )
    return found.withColumn("last_departure", F.timestamp_millis("last_ms")).drop("last_ms")


class Streak(StatefulProcessor):
    """Counts departures on time in the order they were produced."""

    def init(self, handle):
        self.board = handle.getValueState("board", "streak INT, best INT, departed BIGINT, last_ms BIGINT")

    def handleInputRows(self, key, rows, timerValues):
        streak, best, departed, last = self.board.get() or (0, 0, 0, 0)
        for row in sorted(rows, key=lambda each: (each._kafka_partition, each._kafka_offset)):
            streak = streak + 1 if row.dep_delay <= LATE_MINUTES else 0
            best, departed, last = max(best, streak), departed + 1, max(last, row.ms)
        self.board.update((streak, best, departed, last))
        yield Row(carrier=key[0], streak=streak, best=best, departed=departed, last_ms=last)

    def close(self):
        pass
