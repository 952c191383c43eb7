"""Departures of a plane that cannot be back yet: state per plane, with a time to live."""

from pyspark.sql import Row
from pyspark.sql import functions as F
from pyspark.sql.streaming import StatefulProcessor

MOST_MPH = 370.0  # there and back, the time on the ground included
FORGET_MS = 45 * 24 * 3600 * 1000
GIVES = (
    "tailnum STRING, carrier STRING, flight INT, origin STRING, scheduled_ms BIGINT, before_ms BIGINT, "
    "before_to STRING, mph DOUBLE"
)


def suspects(source):
    """The departures for which a plane would have had to fly faster than MOST_MPH."""
    # Times go through state as numbers: rows give a TIMESTAMP in another form (with or without a zone) than state does.
    found = (
        source.where("tailnum IS NOT NULL")
        .withColumn("ms", F.unix_millis("scheduled_at"))
        .groupBy("tailnum")
        .transformWithState(LastDeparture(), GIVES, outputMode="Append", timeMode="ProcessingTime")
    )
    return found.select(
        "tailnum",
        "carrier",
        "flight",
        "origin",
        F.timestamp_millis("scheduled_ms").alias("scheduled_at"),
        F.timestamp_millis("before_ms").alias("before_at"),
        "before_to",
        "mph",
    )


class LastDeparture(StatefulProcessor):
    """Remembers when each plane departed last, where to, and how far that is."""

    def init(self, handle):
        self.last = handle.getValueState("last", "ms BIGINT, dest STRING, miles DOUBLE", FORGET_MS)

    def handleInputRows(self, key, rows, timerValues):
        last = self.last.get()  # None, or (ms, dest, miles)
        for row in sorted(rows, key=lambda each: (each._kafka_partition, each._kafka_offset)):
            if last is not None and row.ms > last[0]:
                mph = 2 * last[2] / ((row.ms - last[0]) / 3_600_000)
                if mph > MOST_MPH:
                    yield Row(
                        tailnum=key[0],
                        carrier=row.carrier,
                        flight=row.flight,
                        origin=row.origin,
                        scheduled_ms=row.ms,
                        before_ms=last[0],
                        before_to=last[1],
                        mph=round(mph, 1),
                    )
            last = (row.ms, row.dest, row.distance)
        if last is not None:
            self.last.update(last)

    def close(self):
        pass
