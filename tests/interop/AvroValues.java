import java.math.BigInteger;
import java.nio.ByteBuffer;
import java.time.LocalDate;
import java.time.LocalTime;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import org.apache.avro.Conversions;
import org.apache.avro.LogicalTypes;
import org.apache.avro.Schema;
import org.apache.avro.generic.GenericData;
import org.apache.avro.generic.GenericFixed;
import org.apache.avro.generic.GenericRecord;
import org.apache.flink.formats.avro.typeutils.GenericRecordAvroTypeInfo;

/**
 * The savepoints of ValueTypes with values of Avro. Flink's jars do not hold flink-avro: give its classes and Avro's jar in
 * FLINK_JARS, as a class path.
 */
public class AvroValues {
    static final String RECORD =
            """
            {"type": "record", "name": "Order", "namespace": "com.acme", "doc": "\u00e9\u20ac", "fields": [
              {"name": "id", "type": "long"}, {"name": "count", "type": "int"}, {"name": "ratio", "type": "float"}, {"name": "amount", "type": "double"},
              {"name": "paid", "type": "boolean"}, {"name": "text", "type": "string"}, {"name": "javaText", "type": {"type": "string", "avro.java.string": "String"}},
              {"name": "raw", "type": "bytes"}, {"name": "none", "type": "null"},
              {"name": "note", "type": ["null", "string"], "default": null}, {"name": "reverse", "type": ["int", "null"]},
              {"name": "either", "type": ["null", "int", "string", {"type": "record", "name": "Part", "fields": [
                  {"name": "name", "type": ["null", "string"]}, {"name": "sizes", "type": {"type": "array", "items": ["null", "long"]}}]}]},
              {"name": "state", "type": {"type": "enum", "name": "State", "symbols": ["NEW", "DONE", "LOST"]}}, {"name": "states", "type": {"type": "array", "items": "State"}},
              {"name": "hash", "type": {"type": "fixed", "name": "Hash", "size": 3}}, {"name": "hashes", "type": {"type": "map", "values": "com.acme.Hash"}},
              {"name": "parts", "type": {"type": "array", "items": "Part"}}, {"name": "byName", "type": {"type": "map", "values": {"type": "array", "items": "Part"}}},
              {"name": "day", "type": {"type": "int", "logicalType": "date"}}, {"name": "clock", "type": {"type": "int", "logicalType": "time-millis"}},
              {"name": "micros", "type": {"type": "long", "logicalType": "time-micros"}}, {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
              {"name": "precise", "type": ["null", {"type": "long", "logicalType": "timestamp-micros"}]}, {"name": "local", "type": {"type": "long", "logicalType": "local-timestamp-millis"}},
              {"name": "localMicros", "type": {"type": "long", "logicalType": "local-timestamp-micros"}}, {"name": "nanos", "type": {"type": "long", "logicalType": "timestamp-nanos"}},
              {"name": "price", "type": {"type": "bytes", "logicalType": "decimal", "precision": 38, "scale": 6}},
              {"name": "fee", "type": ["null", {"type": "fixed", "name": "Fee", "size": 9, "logicalType": "decimal", "precision": 20, "scale": 2}]},
              {"name": "key", "type": {"type": "string", "logicalType": "uuid"}}]}
            """;
    static final String TREE =
            """
            {"type": "record", "name": "Node", "fields": [{"name": "value", "type": "long"}, {"name": "left", "type": ["null", "Node"]},
              {"name": "others", "type": {"type": "array", "items": "Node"}}, {"name": "tail", "type": "string"}]}
            """;

    static Object json(Object value, Schema schema) {
        if (value == null) {
            return null;
        }
        String logical = schema.getLogicalType() == null ? "" : schema.getLogicalType().getName();
        switch (schema.getType()) {
            case RECORD:
                Map<String, Object> fields = new TreeMap<>();
                for (Schema.Field field : schema.getFields()) {
                    fields.put(field.name(), json(((GenericRecord) value).get(field.pos()), field.schema()));
                }
                return fields;
            case ARRAY:
                List<Object> made = new ArrayList<>();
                ((Iterable<?>) value).forEach(each -> made.add(json(each, schema.getElementType())));
                return made;
            case MAP:
                try {
                    return ValueTypes.pairs((Map<?, ?>) value, Object::toString, each -> json(each, schema.getValueType()));
                } catch (Exception wrong) {
                    throw new IllegalStateException(wrong);
                }
            case UNION:
                return union(value, schema);
            case INT:
                int number = (Integer) value;
                return switch (logical) {
                    case "date" -> LocalDate.ofEpochDay(number).toString();
                    case "time-millis" -> ValueTypes.time(LocalTime.ofNanoOfDay(number * 1_000_000L));
                    default -> number;
                };
            case LONG:
                return moment((Long) value, logical);
            case STRING:
            case ENUM:
                return value.toString();
            case BYTES:
                byte[] bytes = new byte[((ByteBuffer) value).remaining()];
                ((ByteBuffer) value).duplicate().get(bytes);
                return logical.isEmpty() ? ValueTypes.hex(bytes) : decimal(bytes, schema);
            case FIXED:
                return logical.isEmpty() ? ValueTypes.hex(((GenericFixed) value).bytes()) : decimal(((GenericFixed) value).bytes(), schema);
            default:
                return ValueTypes.json(value);
        }
    }

    static Object moment(long value, String logical) {
        long per = logical.endsWith("millis") ? 1_000 : logical.endsWith("micros") ? 1_000_000 : 1_000_000_000;
        String text = logical.contains("timestamp") ? ValueTypes.utc(Math.floorDiv(value, per), (int) (Math.floorMod(value, per) * (1_000_000_000 / per))) : "";
        return switch (logical) {
            case "" -> ValueTypes.number(value);
            case "time-micros" -> ValueTypes.time(LocalTime.ofNanoOfDay(value * 1_000));
            default -> logical.startsWith("local") ? text.substring(0, text.length() - 1) : text;
        };
    }

    static String decimal(byte[] bytes, Schema schema) {
        return new java.math.BigDecimal(new BigInteger(bytes), ((LogicalTypes.Decimal) schema.getLogicalType()).getScale()).toPlainString();
    }

    /** A union with null and one type is that type; else an object of all members, of which one is set. */
    static Object union(Object value, Schema schema) {
        int own = GenericData.get().resolveUnion(schema, value);
        List<Schema> types = schema.getTypes();
        if (types.size() == 2) {
            return json(value, types.get(own));
        }
        Map<String, Object> made = new TreeMap<>();
        for (int place = 0; place < types.size(); place++) {
            if (types.get(place).getType() != Schema.Type.NULL) {
                made.put(place + "_" + types.get(place).getName(), place == own ? json(value, types.get(place)) : null);
            }
        }
        return made;
    }

    static GenericRecord record(Schema schema, Object... values) {
        GenericRecord made = new GenericData.Record(schema);
        for (int place = 0; place < values.length; place++) {
            made.put(place, values[place]);
        }
        return made;
    }

    static Schema of(Schema schema, String field) {
        return schema.getField(field).schema();
    }

    static Object decimal(String text, Schema schema) {
        return new Conversions.DecimalConversion().toBytes(new java.math.BigDecimal(text), schema, schema.getLogicalType());
    }

    static Object fixed(String text, Schema schema) {
        return new Conversions.DecimalConversion().toFixed(new java.math.BigDecimal(text), schema, schema.getLogicalType());
    }

    static void addRecords() {
        Schema order = new Schema.Parser().parse(RECORD);
        Schema part = of(order, "parts").getElementType();
        Schema state = of(order, "state");
        Schema hash = of(order, "hash");
        Schema fee = of(order, "fee").getTypes().get(1);
        GenericRecord one = record(part, ValueTypes.WIDE, Arrays.asList(-1L, null, Long.MIN_VALUE));
        GenericRecord empty = record(part, null, List.of());
        GenericRecord full = record(order, Long.MIN_VALUE, Integer.MIN_VALUE, -0.5f, Double.NaN, true, ValueTypes.WIDE, ValueTypes.LONG_TEXT, ByteBuffer.wrap(new byte[] {-1, 44, 0}), null,
                ValueTypes.WIDE, -44, one, new GenericData.EnumSymbol(state, "LOST"), List.of(new GenericData.EnumSymbol(state, "DONE"), new GenericData.EnumSymbol(state, "NEW")),
                new GenericData.Fixed(hash, new byte[] {1, 44, -1}), new TreeMap<>(Map.of("a", new GenericData.Fixed(hash, new byte[] {0, 0, 0}), ValueTypes.WIDE, new GenericData.Fixed(hash, new byte[] {1, 1, 1}))),
                List.of(one, empty, one), new TreeMap<>(Map.of("", List.of(), "x", List.of(empty, one))), -1, 86_399_999, 86_399_999_999L, -1L, -1L, -1L, -1L, -1L,
                decimal("-99999999999999999999999999999999.999999", of(order, "price")), fixed("-0.01", fee), "6f1c2c2c-0000-0000-0000-000000000000");
        GenericRecord nothing = record(order, 0L, 0, Float.NEGATIVE_INFINITY, -0.0, false, "", "", ByteBuffer.wrap(new byte[0]), null, null, null, null, new GenericData.EnumSymbol(state, "NEW"), List.of(),
                new GenericData.Fixed(hash, new byte[3]), Map.of(), List.of(), Map.of(), 0, 0, 0L, 0L, null, 0L, 0L, 0L, decimal("0.000000", of(order, "price")), null, "");
        GenericRecord far = record(order, Long.MAX_VALUE, 44, 1.5f, Double.MIN_VALUE, true, ",", ",", ByteBuffer.wrap(new byte[] {44, 44}), null, "", Integer.MAX_VALUE, 7, new GenericData.EnumSymbol(state, "DONE"),
                List.of(new GenericData.EnumSymbol(state, "LOST")), new GenericData.Fixed(hash, new byte[] {44, 44, 44}), Map.of(), List.of(empty), Map.of(), -719_162, 1, 1L, -62135596800000L, -9_000_000_000_000_000L,
                -9_000_000_000_000L, 1L, Long.MIN_VALUE + 1, decimal("0.000001", of(order, "price")), fixed("999999999999999999.99", fee), "x");
        GenericRecord text = record(order, full.getSchema().getFields().stream().map(field -> full.get(field.pos())).toArray());
        text.put("either", "text");
        add("avro", order, full, nothing, text);
        add("avro-far", order, far, nothing);
        Schema node = new Schema.Parser().parse(TREE);
        GenericRecord leaf = record(node, -1L, null, List.of(), "leaf");
        add("avro-tree", node, leaf, record(node, 1L, leaf, List.of(leaf, record(node, 2L, leaf, List.of(), ValueTypes.WIDE)), "root"));
    }

    static void add(String name, Schema schema, GenericRecord... values) {
        @SuppressWarnings("unchecked")
        var serializer = (org.apache.flink.api.common.typeutils.TypeSerializer<Object>)
                (Object) new GenericRecordAvroTypeInfo(schema).createSerializer(ValueTypes.settings());
        ValueTypes.KINDS.add(new ValueTypes.Kind(name, serializer, value -> json(value, schema), List.of((Object[]) values), false, true));
    }

    public static void main(String[] arguments) throws Exception {
        addRecords();
        ValueTypes.runAll(arguments, "avro-");
    }
}
