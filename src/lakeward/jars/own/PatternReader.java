package io.lakeward;

import java.io.Serializable;
import org.apache.spark.unsafe.types.UTF8String;

/** Reads texts by a pattern of Spark, for the exact rules: null where Spark's own function ends the job. */
public final class PatternReader implements Serializable {
    private final JsonTimes.PatternValue pattern;

    public PatternReader(String pattern) {
        this.pattern = new JsonTimes.PatternValue(pattern, false);
    }

    /** Microseconds since 1970; null if the text is none within the years 1 to 9999. Without a zone it is UTC. */
    public Long read(UTF8String text) {
        return pattern.parsed(text.toString());
    }
}
