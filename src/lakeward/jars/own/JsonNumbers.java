package io.lakeward;

import com.fasterxml.jackson.core.JsonParser;
import com.fasterxml.jackson.core.JsonToken;
import java.io.IOException;
import java.math.BigDecimal;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.Decimal;
import org.apache.spark.sql.types.DecimalType;
import org.apache.spark.sql.types.IntegerType;
import org.apache.spark.sql.types.ShortType;

/** Plain forms of numbers, for JsonReader. */
final class JsonNumbers {
    private JsonNumbers() {}

    /** SMALLINT, INT and BIGINT: a whole number of its range, without fraction and exponent. */
    static final class WholeValue extends JsonReader.Value {
        private final boolean isShort;
        private final boolean isInt;

        WholeValue(DataType kind) {
            isShort = kind instanceof ShortType;
            isInt = kind instanceof IntegerType;
        }

        Object read(JsonParser parser) throws IOException {
            sure(parser.currentToken() == JsonToken.VALUE_NUMBER_INT);
            long value = parser.getLongValue(); // refuses what is not a long
            if (isShort) {
                sure((short) value == value);
                return Short.valueOf((short) value);
            } else if (isInt) {
                sure((int) value == value);
                return Integer.valueOf((int) value);
            }
            return Long.valueOf(value);
        }
    }

    /** DOUBLE and FLOAT: a number below the first whole number that the type does not have, and not lost as zero. */
    static final class FloatingValue extends JsonReader.Value {
        private static final double[] TENS = {
            1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15
        };
        private final boolean isFloat;
        private final double below;

        FloatingValue(boolean isFloat) {
            this.isFloat = isFloat;
            this.below = isFloat ? 16777216.0 : 9007199254740992.0;
        }

        Object read(JsonParser parser) throws IOException {
            sure(parser.currentToken().isNumeric());
            double value = parse(parser.getTextCharacters(), parser.getTextOffset(), parser.getTextLength());
            float narrow = (float) value;
            sure(Math.abs(isFloat ? narrow : value) < below);
            if (isFloat) {
                sure(narrow != 0 || zero(parser));
                return Float.valueOf(narrow);
            }
            sure(value != 0 || zero(parser));
            return Double.valueOf(value);
        }

        /**
         * The nearest double. Up to 15 digits are a whole number and a power of ten, both exact: one division rounds.
         * With 16 digits and no point it is exact below 2^53; from there on it is in doubt anyway.
         */
        private static double parse(char[] text, int begin, int length) {
            int end = begin + length;
            boolean negative = text[begin] == '-';
            int at = negative ? begin + 1 : begin;
            if (end - at > 16) {
                return Double.parseDouble(new String(text, begin, length));
            }
            long digits = 0;
            int point = -1;
            for (; at < end; at++) {
                char each = text[at];
                if (each == '.') {
                    point = at;
                } else if (each >= '0' && each <= '9') {
                    digits = digits * 10 + (each - '0');
                } else {
                    return Double.parseDouble(new String(text, begin, length));
                }
            }
            double value = point < 0 ? (double) digits : digits / TENS[end - point - 1];
            return negative ? -value : value;
        }

        private static boolean zero(JsonParser parser) throws IOException {
            String text = parser.getText();
            for (int at = 0; at < text.length(); at++) {
                char each = text.charAt(at);
                if (each == 'e' || each == 'E') {
                    break;
                } else if (each >= '1' && each <= '9') {
                    return false;
                }
            }
            return true;
        }
    }

    /** DECIMAL: digits that fit, without an exponent; as a number or a text. */
    static final class DecimalValue extends JsonReader.Value {
        private static final int IN_LONG = 18;
        private static final int LONGEST = 400; // the rules refuse a longer one
        private final int precision;
        private final int scale;
        private final boolean number;
        private final boolean text;

        DecimalValue(DecimalType kind, String tokens) {
            precision = kind.precision();
            scale = kind.scale();
            number = !tokens.equals("text");
            text = !tokens.equals("number");
        }

        Object read(JsonParser parser) throws IOException {
            JsonToken token = parser.currentToken();
            sure(token == JsonToken.VALUE_STRING ? text : token.isNumeric() && number);
            char[] characters = parser.getTextCharacters();
            int begin = parser.getTextOffset();
            int end = begin + parser.getTextLength();
            sure(end - begin <= LONGEST);
            boolean negative = begin < end && characters[begin] == '-';
            if (negative) {
                begin++;
            }
            int point = begin;
            while (point < end && digit(characters[point])) {
                point++;
            }
            sure(point > begin && (point == end || characters[point] == '.'));
            while (end > point + 1 && characters[end - 1] == '0') {
                end--;
            }
            int fraction = point == end ? 0 : end - point - 1;
            sure(fraction <= scale);
            for (int at = point + 1; at < end; at++) {
                sure(digit(characters[at]));
            }
            while (begin < point && characters[begin] == '0') {
                begin++;
            }
            sure(point - begin <= precision - scale);
            if (precision > IN_LONG) {
                String plain = "0" + new String(characters, begin, end - begin);
                BigDecimal value = new BigDecimal(plain).setScale(scale);
                return Decimal.apply(negative ? value.negate() : value, precision, scale);
            }
            long unscaled = 0;
            for (int at = begin; at < end; at++) {
                unscaled = at == point ? unscaled : unscaled * 10 + (characters[at] - '0');
            }
            for (int at = fraction; at < scale; at++) {
                unscaled *= 10;
            }
            return Decimal.createUnsafe(negative ? -unscaled : unscaled, precision, scale);
        }

        private static boolean digit(char each) {
            return each >= '0' && each <= '9';
        }
    }
}
