"""A model for each carrier that learns from every departure: recursive least squares, with slow forgetting."""

import numpy as np
from pyspark.sql import Row
from pyspark.sql import functions as F
from pyspark.sql.streaming import StatefulProcessor

FORGET = 0.999  # what a departure weighs, for each one after it
DOUBT = 1000.0  # how little the first guess, no delay at any hour, is believed
GIVES = "carrier STRING, version BIGINT, valid_from_ms BIGINT, seen BIGINT, bias DOUBLE, by_hour DOUBLE"


def fits(source):
    """A row for each carrier that departed: its next version."""
    found = (
        source.where("dep_delay IS NOT NULL")
        .withColumn("ms", F.unix_millis("scheduled_at"))
        .withColumn("hour", F.hour("scheduled_at"))
        .groupBy("carrier")
        .transformWithState(Learner(), GIVES, outputMode="Append", timeMode="None")
    )
    return found.withColumn("valid_from", F.timestamp_millis("valid_from_ms")).drop("valid_from_ms")


class Learner(StatefulProcessor):
    """Keeps the weights, and how sure they are."""

    def init(self, handle):
        self.kept = handle.getValueState(
            "fit", "weights ARRAY<DOUBLE>, doubt ARRAY<DOUBLE>, seen BIGINT, version BIGINT, ms BIGINT"
        )

    def handleInputRows(self, key, rows, timerValues):
        weights, doubt, seen, version, last = self.kept.get() or ([0.0, 0.0], [DOUBT, 0.0, 0.0, DOUBT], 0, 0, 0)
        weights, doubt = np.array(weights), np.array(doubt).reshape(2, 2)
        for row in sorted(rows, key=lambda each: (each._kafka_partition, each._kafka_offset)):
            x = np.array([1.0, row.hour / 24])
            gain = doubt @ x / (FORGET + x @ doubt @ x)
            weights = weights + gain * (row.dep_delay - x @ weights)
            doubt = (doubt - np.outer(gain, x @ doubt)) / FORGET
            seen, last = seen + 1, max(last, row.ms)
        version += 1
        self.kept.update((weights.tolist(), doubt.ravel().tolist(), seen, version, last))
        yield Row(
            carrier=key[0],
            version=version,
            valid_from_ms=last,
            seen=seen,
            bias=float(weights[0]),
            by_hour=float(weights[1]),
        )

    def close(self):
        pass
