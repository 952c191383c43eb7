package io.lakeward;

import com.fasterxml.jackson.core.JsonEncoding;
import com.fasterxml.jackson.core.JsonFactory;
import com.fasterxml.jackson.core.JsonGenerator;
import com.fasterxml.jackson.core.JsonParser;
import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.core.JsonToken;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.Serializable;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Base64;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.catalyst.util.ArrayBasedMapData;
import org.apache.spark.sql.catalyst.util.GenericArrayData;
import org.apache.spark.sql.types.ArrayType;
import org.apache.spark.sql.types.BinaryType;
import org.apache.spark.sql.types.BooleanType;
import org.apache.spark.sql.types.CharType;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DateType;
import org.apache.spark.sql.types.DecimalType;
import org.apache.spark.sql.types.DoubleType;
import org.apache.spark.sql.types.FloatType;
import org.apache.spark.sql.types.IntegerType;
import org.apache.spark.sql.types.LongType;
import org.apache.spark.sql.types.MapType;
import org.apache.spark.sql.types.ShortType;
import org.apache.spark.sql.types.StringType;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.types.TimestampNTZType;
import org.apache.spark.sql.types.TimestampType;
import org.apache.spark.sql.types.VarcharType;
import org.apache.spark.unsafe.types.UTF8String;

/**
 * Reads one JSON record into a row of Spark, in one pass over its bytes.
 *
 * It takes only the plain form of each type, whose value is beyond doubt. Everything else makes the whole record doubtful,
 * and no row is returned: exact rules decide on it (lakeward.connectors.decode). So this class never refuses a record.
 */
public final class JsonReader implements Serializable {
    private static final JsonFactory FACTORY =
        new JsonFactory().configure(JsonFactory.Feature.INTERN_FIELD_NAMES, false);

    private final StructValue columns;
    private final int longest;

    /**
     * @param schema the declared columns, as Spark's JSON of a StructType
     * @param longest bytes of the longest record that is read
     * @param timestamps `iso`, `epoch_s`, `epoch_ms` or a pattern of Spark
     * @param dates `iso` or a pattern
     * @param decimals `text`, `number` or `any`: the only token that a DECIMAL may be
     * @param bare whether an ISO time without a zone is taken, as UTC
     */
    public JsonReader(
        String schema, int longest, String timestamps, String dates, String decimals, boolean bare
    ) {
        this.columns = new StructValue((StructType) DataType.fromJson(schema),
            new Formats(timestamps, dates, decimals, bare));
        this.longest = longest;
    }

    /** The row of a record; null if the record is in doubt. */
    public InternalRow read(byte[] value) {
        if (value.length > longest || !plainUtf8(value)) {
            return null;
        }
        try {
            JsonParser parser = FACTORY.createParser(value);
            if (parser.nextToken() != JsonToken.START_OBJECT) {
                return null;
            }
            Object row = columns.read(parser);
            return parser.nextToken() == null ? (InternalRow) row : null;
        } catch (InDoubt doubt) {
            return null;
        } catch (JsonProcessingException broken) {
            return null;
        } catch (IOException impossible) {
            throw new IllegalStateException(impossible);
        }
    }

    /**
     * Whether bytes are valid UTF-8 and Jackson takes them for it: it skips a byte order mark, and takes zeros among the
     * first four bytes for UTF-16 or UTF-32. An object begins with a brace or a blank.
     */
    private static boolean plainUtf8(byte[] value) {
        int first = Math.min(value.length, 4);
        for (int at = 0; at < first; at++) {
            if (value[at] == 0) {
                return false;
            }
        }
        if (first > 0 && value[0] < 0) {
            return false;
        }
        return UTF8String.fromBytes(value).isValid();
    }

    /** Says that a value is not of the plain form of its type. Without a stack trace: it is expected. */
    static final class InDoubt extends RuntimeException {
        static final InDoubt INSTANCE = new InDoubt();

        private InDoubt() {
            super(null, null, false, false);
        }
    }

    /** The declared formats. */
    static final class Formats implements Serializable {
        final String timestamps;
        final String dates;
        final String decimals;
        final boolean bare;

        Formats(String timestamps, String dates, String decimals, boolean bare) {
            this.timestamps = timestamps;
            this.dates = dates;
            this.decimals = decimals;
            this.bare = bare;
        }
    }

    /** Reads the values of one type. */
    abstract static class Value implements Serializable {
        /**
         * @param parser is at the first token of a value that is not null, and is left at its last one
         * @throws InDoubt the value has another form
         */
        abstract Object read(JsonParser parser) throws IOException;

        /** Throws `InDoubt` if a condition does not hold. */
        static void sure(boolean condition) {
            if (!condition) {
                throw InDoubt.INSTANCE;
            }
        }
    }

    static Value of(DataType kind, Formats formats) {
        if (kind instanceof StructType) {
            return new StructValue((StructType) kind, formats);
        } else if (kind instanceof ArrayType) {
            return new ArrayValue(of(((ArrayType) kind).elementType(), formats));
        } else if (kind instanceof MapType && ((MapType) kind).keyType() instanceof StringType) {
            return new MapValue(of(((MapType) kind).valueType(), formats));
        } else if (kind instanceof StringType && !(kind instanceof CharType) && !(kind instanceof VarcharType)) {
            return new TextValue();
        } else if (kind instanceof BooleanType) {
            return new BooleanValue();
        } else if (kind instanceof BinaryType) {
            return new BinaryValue();
        } else if (kind instanceof ShortType || kind instanceof IntegerType || kind instanceof LongType) {
            return new JsonNumbers.WholeValue(kind);
        } else if (kind instanceof DoubleType || kind instanceof FloatType) {
            return new JsonNumbers.FloatingValue(kind instanceof FloatType);
        } else if (kind instanceof DecimalType) {
            return new JsonNumbers.DecimalValue((DecimalType) kind, formats.decimals);
        } else if (kind instanceof DateType) {
            return JsonTimes.day(formats.dates);
        } else if (kind instanceof TimestampType) {
            return JsonTimes.instant(formats.timestamps, formats.bare);
        } else if (kind instanceof TimestampNTZType) {
            return JsonTimes.local(formats.timestamps);
        }
        return new OtherValue();
    }

    /** An object with declared fields. Of equal keys the last counts; keys that are not declared are skipped. */
    static final class StructValue extends Value {
        private final HashMap places = new HashMap();
        private final Value[] values;
        private final boolean[] required;

        StructValue(StructType kind, Formats formats) {
            StructField[] fields = kind.fields();
            values = new Value[fields.length];
            required = new boolean[fields.length];
            for (int at = 0; at < fields.length; at++) {
                places.put(fields[at].name(), Integer.valueOf(at));
                values[at] = of(fields[at].dataType(), formats);
                required[at] = !fields[at].nullable();
            }
        }

        Object read(JsonParser parser) throws IOException {
            sure(parser.currentToken() == JsonToken.START_OBJECT);
            Object[] row = new Object[values.length];
            while (parser.nextToken() != JsonToken.END_OBJECT) {
                Integer at = (Integer) places.get(parser.currentName());
                JsonToken token = parser.nextToken();
                if (at == null) {
                    parser.skipChildren();
                } else {
                    row[at.intValue()] = token == JsonToken.VALUE_NULL ? null : values[at.intValue()].read(parser);
                }
            }
            for (int at = 0; at < row.length; at++) {
                sure(!required[at] || row[at] != null);
            }
            return new GenericInternalRow(row);
        }
    }

    static final class ArrayValue extends Value {
        private final Value element;

        ArrayValue(Value element) {
            this.element = element;
        }

        Object read(JsonParser parser) throws IOException {
            sure(parser.currentToken() == JsonToken.START_ARRAY);
            List found = new ArrayList();
            for (JsonToken token = parser.nextToken(); token != JsonToken.END_ARRAY; token = parser.nextToken()) {
                found.add(token == JsonToken.VALUE_NULL ? null : element.read(parser));
            }
            return new GenericArrayData(found.toArray());
        }
    }

    /** A map from texts. A key that occurs twice is refused by the rules, so it is in doubt here. */
    static final class MapValue extends Value {
        private final Value value;

        MapValue(Value value) {
            this.value = value;
        }

        Object read(JsonParser parser) throws IOException {
            sure(parser.currentToken() == JsonToken.START_OBJECT);
            List keys = new ArrayList();
            List found = new ArrayList();
            Set seen = new HashSet();
            while (parser.nextToken() != JsonToken.END_OBJECT) {
                String key = parser.currentName();
                sure(seen.add(key));
                keys.add(TextValue.utf8(key));
                found.add(parser.nextToken() == JsonToken.VALUE_NULL ? null : value.read(parser));
            }
            return new ArrayBasedMapData(new GenericArrayData(keys.toArray()), new GenericArrayData(found.toArray()));
        }
    }

    /** STRING: any value. A number keeps its text, an object or array its JSON. */
    static final class TextValue extends Value {
        Object read(JsonParser parser) throws IOException {
            JsonToken token = parser.currentToken();
            if (token != JsonToken.START_OBJECT && token != JsonToken.START_ARRAY) {
                char[] characters = parser.getTextCharacters();
                int begin = parser.getTextOffset();
                int length = parser.getTextLength();
                byte[] bytes = new byte[length];
                for (int at = 0; at < length; at++) {
                    char each = characters[begin + at];
                    if (each >= 0x80) {
                        return utf8(new String(characters, begin, length));
                    }
                    bytes[at] = (byte) each;
                }
                return UTF8String.fromBytes(bytes);
            }
            return compact(parser);
        }

        /** An object or array as JSON without blanks. Its numbers stay as they were written. */
        private static UTF8String compact(JsonParser parser) throws IOException {
            ByteArrayOutputStream out = new ByteArrayOutputStream();
            JsonGenerator json = FACTORY.createGenerator(out, JsonEncoding.UTF8);
            int depth = 0;
            JsonToken token = parser.currentToken();
            while (true) {
                if (token == JsonToken.FIELD_NAME) {
                    json.writeFieldName(whole(parser.currentName()));
                } else if (token == JsonToken.VALUE_STRING) {
                    json.writeString(whole(parser.getText()));
                } else if (token.isNumeric()) {
                    json.writeNumber(parser.getText());
                } else {
                    json.copyCurrentEvent(parser);
                    depth += token.isStructStart() ? 1 : token.isStructEnd() ? -1 : 0;
                }
                if (depth == 0) {
                    json.close();
                    return UTF8String.fromBytes(out.toByteArray());
                }
                token = parser.nextToken();
            }
        }

        static UTF8String utf8(String text) {
            return UTF8String.fromBytes(whole(text).getBytes(StandardCharsets.UTF_8));
        }

        /** The text, if it has no half of a character: UTF-8 cannot hold one, and Java writes `?` instead. */
        private static String whole(String text) {
            for (int at = 0; at < text.length(); at++) {
                if (Character.isSurrogate(text.charAt(at))) {
                    sure(Character.isHighSurrogate(text.charAt(at)) && at + 1 < text.length()
                        && Character.isLowSurrogate(text.charAt(at + 1)));
                    at++;
                }
            }
            return text;
        }
    }

    static final class BooleanValue extends Value {
        Object read(JsonParser parser) throws IOException {
            JsonToken token = parser.currentToken();
            sure(token == JsonToken.VALUE_TRUE || token == JsonToken.VALUE_FALSE);
            return Boolean.valueOf(token == JsonToken.VALUE_TRUE);
        }
    }

    /** BINARY: base64 as an encoder writes it. */
    static final class BinaryValue extends Value {
        Object read(JsonParser parser) throws IOException {
            sure(parser.currentToken() == JsonToken.VALUE_STRING);
            String text = parser.getText();
            try {
                byte[] found = Base64.getDecoder().decode(text);
                sure(Base64.getEncoder().encodeToString(found).equals(text));
                return found;
            } catch (IllegalArgumentException other) {
                throw InDoubt.INSTANCE;
            }
        }
    }

    /** A type that has no plain form. */
    static final class OtherValue extends Value {
        Object read(JsonParser parser) throws IOException {
            throw InDoubt.INSTANCE;
        }
    }
}
