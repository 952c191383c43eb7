package io.lakeward;

import com.fasterxml.jackson.core.JsonParser;
import com.fasterxml.jackson.core.JsonToken;
import java.io.IOException;
import java.text.ParseException;
import java.time.DateTimeException;
import java.time.LocalDate;
import java.time.ZoneOffset;
import org.apache.spark.SparkUpgradeException;
import org.apache.spark.sql.catalyst.util.DateFormatter$;
import org.apache.spark.sql.catalyst.util.LegacyDateFormats$;
import org.apache.spark.sql.catalyst.util.TimestampFormatter;
import org.apache.spark.sql.catalyst.util.TimestampFormatter$;

/** Plain forms of days and times, for JsonReader. */
final class JsonTimes {
    private static final long MICROS = 1000000L;
    private static final long DAY = 86400L * MICROS;
    private static final long SECONDS_MIN = -62135596800L; // 0001-01-01T00:00:00Z
    private static final long SECONDS_MAX = 253402300799L; // 9999-12-31T23:59:59Z

    private JsonTimes() {}

    static JsonReader.Value day(String form) {
        return form.equals("iso") ? new IsoDay() : new PatternValue(form, true);
    }

    static JsonReader.Value instant(String form, boolean bare) {
        if (form.equals("epoch_s")) {
            return new EpochValue(1, 12, 6);
        } else if (form.equals("epoch_ms")) {
            return new EpochValue(1000, 15, 3);
        }
        return form.equals("iso") ? new IsoTime(true, bare) : new PatternValue(form, false);
    }

    static JsonReader.Value local(String form) {
        boolean iso = form.equals("iso") || form.equals("epoch_s") || form.equals("epoch_ms");
        return iso ? new IsoTime(false, true) : new PatternValue(form, false);
    }

    /** A value by its characters. No token but a string can have those of a day. */
    abstract static class TextForm extends JsonReader.Value {
        static int number(char[] text, int from, int digits) {
            int value = 0;
            for (int at = from; at < from + digits; at++) {
                sure(text[at] >= '0' && text[at] <= '9');
                value = value * 10 + (text[at] - '0');
            }
            return value;
        }

        /** Days since 1970 of `yyyy-MM-dd`. */
        static int days(char[] text, int from) {
            int year = number(text, from, 4);
            int month = number(text, from + 5, 2);
            int day = number(text, from + 8, 2);
            sure(text[from + 4] == '-' && text[from + 7] == '-');
            sure(year > 0 && month >= 1 && month <= 12 && day >= 1);
            sure(day <= 28 || day <= LocalDate.of(year, month, 1).lengthOfMonth());
            return (int) LocalDate.of(year, month, day).toEpochDay();
        }
    }

    /** DATE: `yyyy-MM-dd`. */
    static final class IsoDay extends TextForm {
        Object read(JsonParser parser) throws IOException {
            sure(parser.getTextLength() == 10);
            return Integer.valueOf(days(parser.getTextCharacters(), parser.getTextOffset()));
        }
    }

    /** TIMESTAMP and TIMESTAMP_NTZ: `yyyy-MM-ddTHH:mm:ss[.ffffff]`, with `Z`, `+HH[[:]mm]`, or without. */
    static final class IsoTime extends TextForm {
        private final boolean zoned;
        private final boolean bare;

        IsoTime(boolean zoned, boolean bare) {
            this.zoned = zoned;
            this.bare = bare;
        }

        Object read(JsonParser parser) throws IOException {
            int length = parser.getTextLength();
            sure(length >= 19);
            char[] text = parser.getTextCharacters();
            int begin = parser.getTextOffset();
            int end = begin + length;
            sure((text[begin + 10] == 'T' || text[begin + 10] == ' ') && text[begin + 13] == ':'
                && text[begin + 16] == ':');
            int hour = number(text, begin + 11, 2);
            int minute = number(text, begin + 14, 2);
            int second = number(text, begin + 17, 2);
            sure(hour < 24 && minute < 60 && second < 60);
            long micros = days(text, begin) * DAY + ((hour * 60 + minute) * 60 + second) * MICROS;
            int at = begin + 19;
            if (at < end && text[at] == '.') {
                int from = ++at;
                long unit = MICROS;
                for (; at < end && text[at] >= '0' && text[at] <= '9'; at++) {
                    unit /= 10;
                    sure(unit > 0 || text[at] == '0');
                    micros += (text[at] - '0') * unit;
                }
                sure(at > from);
            }
            if (at == end) {
                sure(bare);
                return Long.valueOf(micros);
            }
            sure(zoned);
            micros -= zone(text, at, end) * MICROS; // a zone can lead out of the years 1 to 9999
            sure(micros >= SECONDS_MIN * MICROS && micros < (SECONDS_MAX + 1) * MICROS);
            return Long.valueOf(micros);
        }

        /** Seconds by which a zone is ahead of UTC. */
        private static int zone(char[] text, int at, int end) {
            if (text[at] == 'Z') {
                sure(end == at + 1);
                return 0;
            }
            int length = end - at;
            boolean colon = length == 6;
            sure((text[at] == '+' || text[at] == '-') && (length == 3 || length == 5 || colon && text[at + 3] == ':'));
            int hours = number(text, at + 1, 2);
            int minutes = length == 3 ? 0 : number(text, end - 2, 2);
            sure(hours < 18 && minutes < 60);
            return (text[at] == '-' ? -60 : 60) * (hours * 60 + minutes);
        }
    }

    /** TIMESTAMP as seconds or milliseconds since 1970, a number or a text. */
    static final class EpochValue extends TextForm {
        private final int unit;
        private final int whole;
        private final int fraction;

        EpochValue(int unit, int whole, int fraction) {
            this.unit = unit;
            this.whole = whole;
            this.fraction = fraction;
        }

        Object read(JsonParser parser) throws IOException {
            JsonToken token = parser.currentToken();
            sure(token == JsonToken.VALUE_STRING || token.isNumeric());
            char[] text = parser.getTextCharacters();
            int at = parser.getTextOffset();
            int end = at + parser.getTextLength();
            boolean negative = at < end && text[at] == '-';
            if (negative) {
                at++;
            }
            int begin = at;
            long units = 0;
            while (at < end && text[at] >= '0' && text[at] <= '9' && at - begin <= whole) {
                units = units * 10 + (text[at++] - '0');
            }
            sure(at > begin && at - begin <= whole);
            long step = MICROS / unit;
            long micros = units * step;
            if (at < end) {
                sure(text[at] == '.' && end - at > 1 && end - at - 1 <= fraction);
                micros += number(text, at + 1, end - at - 1) * tens(fraction - (end - at - 1));
            }
            micros = negative ? -micros : micros;
            sure(micros >= SECONDS_MIN * MICROS && micros < (SECONDS_MAX + 1) * MICROS);
            // Seconds of today, taken for milliseconds, would be days of 1970.
            sure(unit == 1 || units < 1000000000L || units >= 10000000000L);
            return Long.valueOf(micros);
        }

        private static long tens(int exponent) {
            long value = 1;
            for (int at = 0; at < exponent; at++) {
                value *= 10;
            }
            return value;
        }
    }

    /** A day or a time by a pattern of Spark; without a zone it is UTC. Within the years 1 to 9999, as every form. */
    static final class PatternValue extends JsonReader.Value {
        private final TimestampFormatter formatter;
        private final boolean day;

        PatternValue(String pattern, boolean day) {
            this.formatter = TimestampFormatter$.MODULE$.apply(pattern, ZoneOffset.UTC,
                DateFormatter$.MODULE$.defaultLocale(), LegacyDateFormats$.MODULE$.SIMPLE_DATE_FORMAT(), true);
            this.day = day;
        }

        Object read(JsonParser parser) throws IOException {
            JsonToken token = parser.currentToken();
            sure(token.isScalarValue());
            Long micros = parsed(parser.getText());
            sure(micros != null);
            if (day) {
                return Integer.valueOf((int) Math.floorDiv(micros.longValue(), DAY));
            }
            return micros;
        }

        /** Microseconds since 1970; null if the text is none. A year of many digits is more than a long holds. */
        Long parsed(String text) {
            long micros;
            try {
                micros = formatter.parse(text);
            } catch (ArithmeticException beyond) {
                return null;
            } catch (DateTimeException other) {
                return null;
            } catch (ParseException other) {
                return null;
            } catch (SparkUpgradeException other) {
                return null;
            }
            return micros >= SECONDS_MIN * MICROS && micros < (SECONDS_MAX + 1) * MICROS ? Long.valueOf(micros) : null;
        }
    }
}
