import java.math.BigDecimal;
import java.math.BigInteger;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Instant;
import java.time.LocalDate;
import java.time.LocalDateTime;
import java.time.LocalTime;
import java.time.ZoneOffset;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.function.Function;
import org.apache.flink.api.common.eventtime.WatermarkStrategy;
import org.apache.flink.api.common.functions.OpenContext;
import org.apache.flink.api.common.serialization.SerializerConfigImpl;
import org.apache.flink.api.common.state.ListState;
import org.apache.flink.api.common.state.ListStateDescriptor;
import org.apache.flink.api.common.state.MapState;
import org.apache.flink.api.common.state.MapStateDescriptor;
import org.apache.flink.api.common.state.StateTtlConfig;
import org.apache.flink.api.common.state.ValueState;
import org.apache.flink.api.common.state.ValueStateDescriptor;
import org.apache.flink.api.common.typeinfo.BasicArrayTypeInfo;
import org.apache.flink.api.common.typeinfo.PrimitiveArrayTypeInfo;
import org.apache.flink.api.common.typeinfo.TypeInformation;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.api.common.typeutils.TypeSerializer;
import org.apache.flink.api.common.typeutils.base.IntSerializer;
import org.apache.flink.api.common.typeutils.base.LongSerializer;
import org.apache.flink.api.common.typeutils.base.StringSerializer;
import org.apache.flink.api.connector.source.util.ratelimit.RateLimiterStrategy;
import org.apache.flink.api.java.tuple.Tuple;
import org.apache.flink.api.java.tuple.Tuple1;
import org.apache.flink.api.java.tuple.Tuple2;
import org.apache.flink.api.java.tuple.Tuple3;
import org.apache.flink.api.java.typeutils.EitherTypeInfo;
import org.apache.flink.api.java.typeutils.runtime.NullableSerializer;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.connector.datagen.source.DataGeneratorSource;
import org.apache.flink.connector.datagen.source.GeneratorFunction;
import org.apache.flink.core.execution.JobClient;
import org.apache.flink.core.execution.SavepointFormatType;
import org.apache.flink.runtime.state.FunctionInitializationContext;
import org.apache.flink.runtime.state.FunctionSnapshotContext;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.databind.ObjectMapper;
import org.apache.flink.streaming.api.checkpoint.CheckpointedFunction;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.streaming.api.functions.KeyedProcessFunction;
import org.apache.flink.streaming.api.functions.sink.v2.DiscardingSink;
import org.apache.flink.table.data.ArrayData;
import org.apache.flink.table.data.DecimalData;
import org.apache.flink.table.data.GenericArrayData;
import org.apache.flink.table.data.GenericMapData;
import org.apache.flink.table.data.GenericRowData;
import org.apache.flink.table.data.MapData;
import org.apache.flink.table.data.RowData;
import org.apache.flink.table.data.StringData;
import org.apache.flink.table.data.TimestampData;
import org.apache.flink.table.runtime.typeutils.InternalSerializers;
import org.apache.flink.table.types.logical.ArrayType;
import org.apache.flink.table.types.logical.BigIntType;
import org.apache.flink.table.types.logical.BinaryType;
import org.apache.flink.table.types.logical.BooleanType;
import org.apache.flink.table.types.logical.CharType;
import org.apache.flink.table.types.logical.DateType;
import org.apache.flink.table.types.logical.DayTimeIntervalType;
import org.apache.flink.table.types.logical.DecimalType;
import org.apache.flink.table.types.logical.DoubleType;
import org.apache.flink.table.types.logical.FloatType;
import org.apache.flink.table.types.logical.IntType;
import org.apache.flink.table.types.logical.LocalZonedTimestampType;
import org.apache.flink.table.types.logical.LogicalType;
import org.apache.flink.table.types.logical.MapType;
import org.apache.flink.table.types.logical.MultisetType;
import org.apache.flink.table.types.logical.RowType;
import org.apache.flink.table.types.logical.SmallIntType;
import org.apache.flink.table.types.logical.TimeType;
import org.apache.flink.table.types.logical.TimestampType;
import org.apache.flink.table.types.logical.TinyIntType;
import org.apache.flink.table.types.logical.VarBinaryType;
import org.apache.flink.table.types.logical.VarCharType;
import org.apache.flink.table.types.logical.YearMonthIntervalType;
import org.apache.flink.types.BooleanValue;
import org.apache.flink.types.ByteValue;
import org.apache.flink.types.CharValue;
import org.apache.flink.types.DoubleValue;
import org.apache.flink.types.Either;
import org.apache.flink.types.FloatValue;
import org.apache.flink.types.IntValue;
import org.apache.flink.types.LongValue;
import org.apache.flink.types.Row;
import org.apache.flink.types.RowKind;
import org.apache.flink.types.ShortValue;
import org.apache.flink.types.StringValue;
import org.apache.flink.util.Collector;

/**
 * Savepoints with values of many types, and what Flink reads back of them: the data of tests/snapshots/test_value_types.py.
 *
 * <p>Arguments: the folder to write to. Each case takes a savepoint into FOLDER/CASE and writes FOLDER/CASE/truth.json: a list of
 * {"state", "kind", "type", "rows"}. The values are in the JSON that the other fixtures of Flink's values use. With more
 * arguments, FOLDER/ARGUMENT is a savepoint for each: it is restored, and FOLDER/ARGUMENT/read.json is what it has.
 *
 * <p>The state of a type `t` is `t` (value), `t.list`, `t.map` (values of a map), `t.keys` (keys of a map, if it can be one),
 * `t.ttl`, `t.ttl.list`, `t.ttl.map` (some types), and `t.split` (operator state). Key k holds the k-th value.
 */
public class ValueTypes {
    static final long SAFE = 1L << 53;
    static final AtomicInteger DONE = new AtomicInteger();
    static final Map<String, Map<String, Object>> TRUTH = Collections.synchronizedMap(new TreeMap<>());

    /** A type with some of its values. */
    record Kind(String name, TypeSerializer<Object> serializer, Function<Object, Object> toJson, List<Object> values, boolean isKey, boolean hasTtl) {
        Object json(Object value) {
            return toJson.apply(value);
        }
    }

    // --- the values ------------------------------------------------------------------------------------------------

    public enum Color {
        RED,
        GREEN {
            @Override
            boolean isOwn() {
                return true;
            }
        },
        BLUE;

        boolean isOwn() {
            return false;
        }
    }

    /** A POJO. */
    public static class Inner {
        public String name;
        public Long number;
        public int[] places;

        public Inner() {}

        Inner(String name, Long number, int... places) {
            this.name = name;
            this.number = number;
            this.places = places;
        }
    }

    /** A POJO of all kinds of fields. */
    public static class Outer {
        public Inner inner;
        public Inner[] more;
        public Tuple2<String, Integer> pair;
        public Either<Long, String> either;
        public Color color;
        public byte[] bytes;
        public Double[] numbers;
        public boolean flag;
        public char letter;
        public short small;
        public float ratio;
        public BigDecimal price;
        public Instant at;

        public Outer() {}
    }

    /** A POJO with subclasses. */
    public static class Animal {
        public String name;

        public Animal() {}
    }

    /** A subclass that is registered. */
    public static class Dog extends Animal {
        public long tail;

        public Dog() {}
    }

    /** Another one. */
    public static class Cat extends Animal {
        public Integer lives;
        public Inner inner;

        public Cat() {}
    }

    static final String WIDE = "a\u00e9\u20ac\ud83d\ude00\u0000,z";
    static final String LONG_TEXT = "x\ud83d\ude00,".repeat(90);
    static final LocalDateTime OLD = LocalDateTime.of(1677, 10, 1, 1, 2, 3, 456_789_012);
    static final LocalDateTime BEFORE = LocalDateTime.of(1969, 12, 31, 23, 59, 59, 999_999_999);
    static final LocalDateTime LATE = LocalDateTime.of(9999, 12, 31, 23, 59, 59, 999_999_999);
    static final BigDecimal HUGE = new BigDecimal("-" + "9876543210".repeat(12) + ".000123");
    static final List<Kind> KINDS = new ArrayList<>();

    static SerializerConfigImpl settings() {
        SerializerConfigImpl settings = new SerializerConfigImpl();
        settings.registerPojoType(Dog.class);
        settings.registerPojoType(Cat.class);
        return settings;
    }

    @SuppressWarnings("unchecked")
    static <T> void add(String name, TypeSerializer<T> serializer, boolean isKey, boolean hasTtl, T... values) {
        KINDS.add(new Kind(name, (TypeSerializer<Object>) serializer, ValueTypes::json, List.of(wrapped(values)), isKey, hasTtl));
    }

    @SafeVarargs
    static <T> void add(String name, TypeInformation<T> type, boolean isKey, T... values) {
        add(name, type.createSerializer(settings()), isKey, false, values);
    }

    /** List.of takes no null: a value that is null is this mark, until it is stored. */
    static final Object NULL = "null";

    static Object[] wrapped(Object[] values) {
        return Arrays.stream(values).map(each -> each == null ? NULL : each).toArray();
    }

    static Object value(Object held) {
        return held == NULL ? null : held;
    }

    @SuppressWarnings("unchecked")
    static void sql(String name, LogicalType type, boolean isKey, boolean hasTtl, Object... values) {
        TypeSerializer<Object> serializer = (TypeSerializer<Object>) (TypeSerializer<?>) InternalSerializers.create(type);
        KINDS.add(new Kind(name, serializer, value -> sql(value, type, true), List.of(wrapped(values)), isKey, hasTtl));
    }

    static Outer outer(Inner inner, Inner... more) {
        Outer made = new Outer();
        made.inner = inner;
        made.more = more;
        made.pair = Tuple2.of(WIDE, Integer.MIN_VALUE);
        made.either = Either.Right("");
        made.color = Color.GREEN;
        made.bytes = new byte[] {-128, 0, 44, 127};
        made.numbers = new Double[] {-0.0, null, Double.NaN, Double.MIN_VALUE};
        made.flag = true;
        made.letter = '\uffff';
        made.small = Short.MIN_VALUE;
        made.ratio = -1.5f;
        made.price = HUGE;
        made.at = Instant.parse("1969-12-31T23:59:59.000000001Z");
        return made;
    }

    static Row row(RowKind kind, Object... fields) {
        Row made = Row.of(fields);
        made.setKind(kind);
        return made;
    }

    static <K, V> Map<K, V> map(Object... pairs) {
        Map<Object, Object> made = new LinkedHashMap<>();
        for (int place = 0; place < pairs.length; place += 2) {
            made.put(pairs[place], pairs[place + 1]);
        }
        @SuppressWarnings("unchecked")
        Map<K, V> typed = (Map<K, V>) made;
        return typed;
    }

    static void javaTypes() {
        add("long", LongSerializer.INSTANCE, true, true, 0L, -1L, Long.MIN_VALUE, Long.MAX_VALUE, 44L, 0x2c2c2c2c2c2c2c2cL);
        add("string", StringSerializer.INSTANCE, true, true, "", WIDE, LONG_TEXT, "\u0000", ",", "\ud83d\ude00".repeat(3), null);
        add("nullable", NullableSerializer.wrap(LongSerializer.INSTANCE, false), false, true, 7L, null, -1L);
        add("padded", NullableSerializer.wrap(LongSerializer.INSTANCE, true), false, true, 7L, null, Long.MIN_VALUE);
        add("nullable-date", NullableSerializer.wrap(Types.LOCAL_DATE.createSerializer(settings()), true), false, true,
                LocalDate.of(1969, 12, 31), null, LocalDate.of(1, 1, 1));
        add("either", new EitherTypeInfo<>(Types.LONG, Types.STRING), false,
                Either.Left(-1L), Either.Right(WIDE), Either.Left(Long.MIN_VALUE), Either.Right(""));
        add("either-nested", new EitherTypeInfo<>(new EitherTypeInfo<>(Types.INT, Types.TUPLE(Types.STRING, Types.DOUBLE)), Types.LIST(Types.STRING)), false,
                Either.Left(Either.Left(-5)), Either.Left(Either.Right(Tuple2.of(WIDE, -0.0))), Either.Right(List.of()), Either.Right(Arrays.asList("", WIDE, null)));
        add("enum", Types.ENUM(Color.class), false, Color.BLUE, Color.RED, Color.GREEN);
        add("longs", PrimitiveArrayTypeInfo.LONG_PRIMITIVE_ARRAY_TYPE_INFO, false, new long[0], new long[] {Long.MIN_VALUE, -1, 0, Long.MAX_VALUE});
        add("ints", PrimitiveArrayTypeInfo.INT_PRIMITIVE_ARRAY_TYPE_INFO, false, new int[0], new int[] {Integer.MIN_VALUE, 44});
        add("shorts", PrimitiveArrayTypeInfo.SHORT_PRIMITIVE_ARRAY_TYPE_INFO, false, new short[0], new short[] {Short.MIN_VALUE, 44, Short.MAX_VALUE});
        add("bytes", PrimitiveArrayTypeInfo.BYTE_PRIMITIVE_ARRAY_TYPE_INFO, false, new byte[0], new byte[] {-128, 44, 0, 127});
        add("floats", PrimitiveArrayTypeInfo.FLOAT_PRIMITIVE_ARRAY_TYPE_INFO, false, new float[0], new float[] {-0.0f, Float.NaN, Float.NEGATIVE_INFINITY, 0.5f});
        add("doubles", PrimitiveArrayTypeInfo.DOUBLE_PRIMITIVE_ARRAY_TYPE_INFO, false, new double[0], new double[] {-0.0, Double.NaN, Double.POSITIVE_INFINITY, Double.MIN_VALUE});
        add("booleans", PrimitiveArrayTypeInfo.BOOLEAN_PRIMITIVE_ARRAY_TYPE_INFO, false, new boolean[0], new boolean[] {true, false, true});
        add("chars", PrimitiveArrayTypeInfo.CHAR_PRIMITIVE_ARRAY_TYPE_INFO, false, new char[0], WIDE.toCharArray());
        add("strings", BasicArrayTypeInfo.STRING_ARRAY_TYPE_INFO, false, new String[0], new String[] {"", WIDE, null}, new String[] {null});
        add("boxed-longs", BasicArrayTypeInfo.LONG_ARRAY_TYPE_INFO, false, new Long[0], new Long[] {Long.MIN_VALUE, null, 44L}, new Long[] {null, null});
        add("boxed-chars", BasicArrayTypeInfo.CHAR_ARRAY_TYPE_INFO, false, new Character[] {'\uffff', null, ','}, new Character[0]);
        add("boxed-booleans", BasicArrayTypeInfo.BOOLEAN_ARRAY_TYPE_INFO, false, new Boolean[] {true, null, false}, new Boolean[0]);
        add("tuples", Types.OBJECT_ARRAY(Types.<Tuple2<String, Long>>TUPLE(Types.STRING, Types.LONG)), false,
                array(), array(Tuple2.of("", -1L), null, Tuple2.of(WIDE, Long.MAX_VALUE)));
        add("arrays", Types.OBJECT_ARRAY(Types.OBJECT_ARRAY(Types.STRING)), false, new String[0][], new String[][] {{"a", null}, null, {}});
        add("enums", Types.OBJECT_ARRAY(Types.ENUM(Color.class)), false, new Color[] {Color.GREEN, null, Color.RED}, new Color[0]);
        add("tuple", Types.<Tuple3<Integer, String, Tuple1<Long>>>TUPLE(Types.INT, Types.STRING, Types.TUPLE(Types.LONG)), true,
                Tuple3.of(Integer.MIN_VALUE, WIDE, Tuple1.of(-1L)), Tuple3.of(44, "", Tuple1.of(44L)));
        add("lists", Types.LIST(Types.LIST(Types.LONG)), false, List.of(), List.of(List.of(), List.of(-1L, 44L)));
        add("sets", Types.SET(Types.INT), false, Collections.emptySet(), new HashSet<>(List.of(1, 2, 3)));
        add("maps", Types.MAP(Types.STRING, Types.MAP(Types.LONG, Types.STRING)), false,
                map(), map("", null, WIDE, map(-1L, null, Long.MIN_VALUE, WIDE)), map("a", map()));
        add("pojo", Types.POJO(Inner.class), false, new Inner(WIDE, Long.MIN_VALUE, -1, 44), new Inner(null, null, (int[]) null), new Inner("", 0L), null);
        add("pojo-nested", Types.POJO(Outer.class), false, outer(new Inner(WIDE, -1L, 44)), outer(null), outer(new Inner(null, null), new Inner("", 1L), null), new Outer());
        Dog dog = new Dog();
        dog.name = WIDE;
        dog.tail = -3;
        Cat cat = new Cat();
        cat.lives = 9;
        cat.inner = new Inner(null, 44L);
        Animal animal = new Animal();
        animal.name = "";
        add("pojo-subclass", Types.POJO(Animal.class), false, animal, dog, cat, new Animal(), null);
        add("row", Types.ROW(Types.INT, Types.STRING, Types.ROW(Types.LONG, Types.BIG_DEC), Types.OBJECT_ARRAY(Types.INT)), false,
                row(RowKind.INSERT, 1, WIDE, Row.of(-1L, HUGE), new Integer[] {null, 44}), row(RowKind.DELETE, null, null, null, null),
                row(RowKind.UPDATE_BEFORE, Integer.MIN_VALUE, "", row(RowKind.UPDATE_AFTER, null, null), new Integer[0]));
        Object[] many = new Object[17];
        TypeInformation<?>[] types = new TypeInformation<?>[17];
        for (int place = 0; place < 17; place++) {
            many[place] = place % 3 == 0 ? null : (long) -place;
            types[place] = Types.LONG;
        }
        add("row-wide", Types.ROW(types), false, row(RowKind.UPDATE_AFTER, many), row(RowKind.DELETE, new Object[17]));
        add("decimal", Types.BIG_DEC, true, HUGE, BigDecimal.ZERO, new BigDecimal("0.00"), new BigDecimal("1E+3"), new BigDecimal("-1E-30"), BigDecimal.TEN, new BigDecimal("10"),
                new BigDecimal(BigInteger.ONE.shiftLeft(300), 12), null);
        add("integer", Types.BIG_INT, true, BigInteger.ZERO, BigInteger.ONE, BigInteger.TEN, BigInteger.TEN.negate(), BigInteger.valueOf(-128), BigInteger.valueOf(128), BigInteger.valueOf(255),
                BigInteger.valueOf(-129), BigInteger.ONE.shiftLeft(200).negate(), null);
        add("date", Types.LOCAL_DATE, true, LocalDate.EPOCH, LocalDate.of(1969, 12, 31), LocalDate.of(1600, 2, 29), LocalDate.of(1, 1, 1), LocalDate.of(9999, 12, 31));
        add("date-far", Types.LOCAL_DATE, true, LocalDate.MAX, LocalDate.MIN, LocalDate.of(0, 2, 29), LocalDate.of(-4, 2, 29), LocalDate.of(10_000, 1, 1), null);
        add("time", Types.LOCAL_TIME, true, LocalTime.MIN, LocalTime.MAX, LocalTime.NOON, LocalTime.of(1, 2, 3, 4), null);
        add("datetime", Types.LOCAL_DATE_TIME, true, OLD, BEFORE, LocalDateTime.of(1970, 1, 1, 0, 0), LocalDateTime.of(2262, 1, 1, 0, 0, 0, 1), null);
        add("datetime-far", Types.LOCAL_DATE_TIME, true, LocalDateTime.MAX, LocalDateTime.MIN, LATE, BEFORE);
        add("instant", Types.INSTANT, true, OLD.toInstant(ZoneOffset.UTC), BEFORE.toInstant(ZoneOffset.UTC), Instant.EPOCH, Instant.ofEpochSecond(-1, 1), null);
        add("instant-far", Types.INSTANT, true, Instant.MAX, Instant.ofEpochSecond(Instant.MIN.getEpochSecond(), 1), BEFORE.toInstant(ZoneOffset.UTC));
        add("sql-timestamp", Types.SQL_TIMESTAMP, true, timestamp(OLD), timestamp(BEFORE), new java.sql.Timestamp(-1), new java.sql.Timestamp(0), null);
        add("sql-date", Types.SQL_DATE, true, new java.sql.Date(-1), new java.sql.Date(0), new java.sql.Date(-62135596800000L), null);
        add("long-value", Types.VALUE(LongValue.class), false, new LongValue(Long.MIN_VALUE), new LongValue(44));
        add("int-value", Types.VALUE(IntValue.class), false, new IntValue(Integer.MIN_VALUE), new IntValue(44));
        add("short-value", Types.VALUE(ShortValue.class), false, new ShortValue(Short.MIN_VALUE));
        add("byte-value", Types.VALUE(ByteValue.class), false, new ByteValue(Byte.MIN_VALUE));
        add("char-value", Types.VALUE(CharValue.class), false, new CharValue(','));
        add("double-value", Types.VALUE(DoubleValue.class), false, new DoubleValue(-0.0), new DoubleValue(Double.NaN));
        add("float-value", Types.VALUE(FloatValue.class), false, new FloatValue(-0.5f));
        add("boolean-value", Types.VALUE(BooleanValue.class), false, new BooleanValue(true), new BooleanValue(false));
        add("string-value", Types.VALUE(StringValue.class), false, new StringValue(WIDE), new StringValue(""));
    }

    @SafeVarargs
    static <T> T[] array(T... elements) {
        return elements;
    }

    static java.sql.Timestamp timestamp(LocalDateTime at) {
        java.sql.Timestamp made = new java.sql.Timestamp(at.toEpochSecond(ZoneOffset.UTC) * 1000);
        made.setNanos(at.getNano());
        return made;
    }

    // --- SQL's types -----------------------------------------------------------------------------------------------

    static DecimalData decimal(String text, int precision, int scale) {
        return DecimalData.fromBigDecimal(new BigDecimal(text), precision, scale);
    }

    static StringData text(String text) {
        return StringData.fromString(text);
    }

    static ArrayData list(Object... elements) {
        return new GenericArrayData(elements);
    }

    static MapData sqlMap(Object... pairs) {
        return new GenericMapData(map(pairs));
    }

    static GenericRowData sqlRow(Object... fields) {
        return GenericRowData.of(fields);
    }

    static GenericRowData kinded(RowKind kind, Object... fields) {
        return GenericRowData.ofKind(kind, fields);
    }

    static RowType type(Object... namesAndTypes) {
        List<RowType.RowField> fields = new ArrayList<>();
        for (int place = 0; place < namesAndTypes.length; place += 2) {
            fields.add(new RowType.RowField((String) namesAndTypes[place], (LogicalType) namesAndTypes[place + 1]));
        }
        return new RowType(fields);
    }

    static TimestampData at(LocalDateTime time) {
        return TimestampData.fromLocalDateTime(time);
    }

    static void sqlTypes() {
        VarCharType string = VarCharType.STRING_TYPE;
        RowType scalars = type(
                "flag", new BooleanType(), "tiny", new TinyIntType(), "small", new SmallIntType(), "whole", new IntType(), "big", new BigIntType(),
                "single", new FloatType(), "double", new DoubleType(), "char", new CharType(3), "text", string, "fixed", new BinaryType(2), "bytes", new VarBinaryType(100),
                "day", new DateType(), "time", new TimeType(3), "months", new YearMonthIntervalType(YearMonthIntervalType.YearMonthResolution.YEAR_TO_MONTH),
                "span", new DayTimeIntervalType(DayTimeIntervalType.DayTimeResolution.DAY_TO_SECOND));
        sql("sql-scalars", scalars, true, true,
                sqlRow(true, Byte.MIN_VALUE, Short.MIN_VALUE, Integer.MIN_VALUE, Long.MIN_VALUE, -0.0f, -0.0, text("a\u00e9,"), text(WIDE), new byte[] {-1, 44}, new byte[0], -1, 86_399_999, -13, -1L),
                kinded(RowKind.UPDATE_BEFORE, false, Byte.MAX_VALUE, Short.MAX_VALUE, Integer.MAX_VALUE, Long.MAX_VALUE, Float.NaN, Double.NEGATIVE_INFINITY, text("abc"), text(""), new byte[] {0, 0}, "1234567".getBytes(), -719_162, 0, Integer.MIN_VALUE, Long.MAX_VALUE),
                kinded(RowKind.UPDATE_AFTER, true, (byte) 44, (short) 44, 44, 44L, 0.5f, Double.MIN_VALUE, text("xyz"), text(LONG_TEXT), new byte[] {44, 44}, "12345678".getBytes(), 2_932_896, 1, 0, 0L),
                kinded(RowKind.DELETE, new Object[15]));
        RowType decimals = type("p1", new DecimalType(1, 0), "p18", new DecimalType(18, 6), "p19", new DecimalType(19, 6), "p38", new DecimalType(38, 18), "p38s38", new DecimalType(38, 38));
        sql("sql-decimals", decimals, true, false,
                sqlRow(decimal("-9", 1, 0), decimal("-999999999999.999999", 18, 6), decimal("-9999999999999.999999", 19, 6), decimal("-99999999999999999999.999999999999999999", 38, 18), decimal("-0.99999999999999999999999999999999999999", 38, 38)),
                sqlRow(decimal("0", 1, 0), decimal("0", 18, 6), decimal("0", 19, 6), decimal("0", 38, 18), decimal("0.00000000000000000000000000000000000001", 38, 38)),
                sqlRow(decimal("7", 1, 0), decimal("-0.000001", 18, 6), decimal("-0.000001", 19, 6), decimal("-0.000000000000000001", 38, 18), decimal("0.5", 38, 38)),
                sqlRow(null, null, null, null, null));
        RowType times = type("t0", new TimestampType(0), "t3", new TimestampType(3), "t6", new TimestampType(6), "t9", new TimestampType(9), "z3", new LocalZonedTimestampType(3), "z9", new LocalZonedTimestampType(9));
        sql("sql-times", times, true, false,
                sqlRow(at(OLD.withNano(0)), at(OLD.withNano(456_000_000)), at(OLD.withNano(456_789_000)), at(OLD), at(OLD.withNano(456_000_000)), at(OLD)),
                sqlRow(at(BEFORE.withNano(0)), at(BEFORE.withNano(999_000_000)), at(BEFORE.withNano(999_999_000)), at(BEFORE), at(BEFORE.withNano(1_000_000)), at(BEFORE)),
                sqlRow(at(LocalDateTime.of(1970, 1, 1, 0, 0)), at(LocalDateTime.of(1970, 1, 1, 0, 0)), at(LocalDateTime.of(1970, 1, 1, 0, 0)), at(LocalDateTime.of(1970, 1, 1, 0, 0, 0, 1)), null, at(BEFORE.withNano(1))),
                sqlRow(null, null, null, null, null, null));
        sql("sql-times-far", type("t9", new TimestampType(9), "days", new ArrayType(new TimestampType(9))), false, false,
                sqlRow(at(LATE), list(at(LATE), null, at(LocalDateTime.of(1, 1, 1, 0, 0, 0, 1)))), sqlRow(at(LocalDateTime.of(1, 1, 1, 0, 0)), null), sqlRow(null, list()));
        RowType inner = type("name", string, "scores", new ArrayType(new DoubleType()), "at", new TimestampType(9));
        RowType nested = type(
                "ints", new ArrayType(new IntType()), "texts", new ArrayType(string), "grid", new ArrayType(new ArrayType(new BigIntType())), "flags", new ArrayType(new BooleanType()),
                "tinies", new ArrayType(new TinyIntType()), "smalls", new ArrayType(new SmallIntType()), "prices", new ArrayType(new DecimalType(30, 4)), "cents", new ArrayType(new DecimalType(9, 2)),
                "counts", new MapType(string, new BigIntType()), "tags", new MapType(new IntType(), new ArrayType(string)), "bag", new MultisetType(string),
                "inner", inner, "rows", new ArrayType(inner), "by-name", new MapType(string, inner), "times", new ArrayType(new LocalZonedTimestampType(3)), "days", new ArrayType(new DateType()));
        GenericRowData one = sqlRow(text(WIDE), list(-0.0, null, Double.NaN), at(BEFORE));
        GenericRowData empty = sqlRow(null, null, null);
        sql("sql-nested", nested, false, true,
                sqlRow(list(1, null, Integer.MIN_VALUE), list(text(""), null, text(WIDE), text(LONG_TEXT)), list(list(1L, null), null, list()), list(true, null, false), list((byte) -128, null, (byte) 44), list((short) -1, null, Short.MIN_VALUE),
                        list(decimal("-12345678901234567890123456.7890", 30, 4), null, decimal("0", 30, 4)), list(decimal("-0.01", 9, 2), null), sqlMap(text("a"), -1L, text(WIDE), null), sqlMap(-1, list(text("x"), null), 44, null, 7, list()),
                        sqlMap(text("b"), 2, text("a"), 1), one, list(one, null, empty), sqlMap(text("r"), one, text("s"), null, text("t"), empty), list(at(BEFORE.withNano(999_000_000)), null), list(-1, null, 2_932_896)),
                kinded(RowKind.DELETE, list(), list(), list(), list(), list(), list(), list(), list(), sqlMap(), sqlMap(), sqlMap(), empty, list(), sqlMap(), list(), list()),
                kinded(RowKind.UPDATE_AFTER, new Object[16]),
                sqlRow(list((Object) null), list((Object) null), list(list(list().size() == 0 ? null : 1L)), list((Object) null), list((Object) null), list((Object) null), list((Object) null), list((Object) null), sqlMap(text(""), null), sqlMap(0, null), sqlMap(),
                        sqlRow(text(""), list(), at(OLD)), list((Object) null), sqlMap(text(""), empty), list((Object) null), list((Object) null)));
        Object[] fields = new Object[70];
        Object[] wide = new Object[140];
        for (int place = 0; place < 70; place++) {
            fields[place] = place % 5 == 0 ? null : place % 2 == 0 ? (Object) text("field " + place) : text("f" + place);
            wide[2 * place] = "c" + place;
            wide[2 * place + 1] = string;
        }
        sql("sql-wide", type(wide), true, false, sqlRow(fields), kinded(RowKind.DELETE, new Object[70]));
        sql("sql-array", new ArrayType(string), false, false, list(text(WIDE), null, text("")), list(), list((Object) null));
        sql("sql-array-rows", new ArrayType(inner), false, false, list(one, null, empty), list());
        ArrayData ints = new GenericArrayData(new int[] {1, -1, Integer.MIN_VALUE});
        sql("sql-array-ints", new ArrayType(new IntType(false)), false, false, ints, new GenericArrayData(new int[0]));
        sql("sql-array-times", new ArrayType(new TimestampType(9)), false, false, list(at(BEFORE), null, at(OLD)), list());
        sql("sql-map", new MapType(string, new DecimalType(38, 18)), false, false, sqlMap(text(WIDE), decimal("-99999999999999999999.999999999999999999", 38, 18), text(""), null), sqlMap());
        sql("sql-map-rows", new MapType(new BigIntType(), inner), false, false, sqlMap(-1L, one, Long.MIN_VALUE, empty, 44L, null), sqlMap());
        sql("sql-string", string, true, false, text(WIDE), text(""), text(LONG_TEXT));
        sql("sql-decimal", new DecimalType(38, 18), true, false, decimal("-99999999999999999999.999999999999999999", 38, 18), decimal("0", 38, 18), decimal("0.000000000000000001", 38, 18));
        sql("sql-decimal-small", new DecimalType(9, 2), true, false, decimal("-9999999.99", 9, 2), decimal("0", 9, 2));
        sql("sql-timestamp-3", new TimestampType(3), true, false, at(BEFORE.withNano(999_000_000)), at(OLD.withNano(1_000_000)));
        sql("sql-timestamp-9", new TimestampType(9), true, false, at(BEFORE), at(OLD), at(LocalDateTime.of(1970, 1, 1, 0, 0)));
    }

    // --- their JSON ------------------------------------------------------------------------------------------------

    static Object number(long value) {
        return Math.abs(value) <= SAFE && value != Long.MIN_VALUE ? (Object) value : Long.toString(value);
    }

    static Object real(double value) {
        return Double.isNaN(value) ? "NaN" : Double.isInfinite(value) ? value > 0 ? "Infinity" : "-Infinity" : (Object) value;
    }

    static String hex(byte[] bytes) {
        StringBuilder made = new StringBuilder();
        for (byte each : bytes) {
            made.append(String.format("%02x", each));
        }
        return made.toString();
    }

    static String time(LocalTime at) {
        String whole = String.format("%02d:%02d:%02d", at.getHour(), at.getMinute(), at.getSecond());
        return at.getNano() == 0 ? whole : whole + String.format(".%09d", at.getNano());
    }

    static String moment(LocalDateTime at) {
        return at.toLocalDate() + "T" + time(at.toLocalTime());
    }

    static String utc(long seconds, int nanos) {
        return moment(LocalDateTime.ofEpochSecond(seconds, nanos, ZoneOffset.UTC)) + "Z";
    }

    /** A moment beyond what LocalDateTime holds: an Instant's own text. */
    static String utc(Instant at) {
        try {
            return utc(at.getEpochSecond(), at.getNano());
        } catch (java.time.DateTimeException beyond) {
            return at.toString();
        }
    }

    static List<Object> pairs(Map<?, ?> held, Function<Object, Object> ofKey, Function<Object, Object> ofValue) throws Exception {
        ObjectMapper ascii = mapper();
        TreeMap<String, Object> sorted = new TreeMap<>();
        for (Map.Entry<?, ?> entry : held.entrySet()) {
            Object key = ofKey.apply(entry.getKey());
            sorted.put(ascii.writeValueAsString(key), Arrays.asList(key, ofValue.apply(entry.getValue())));
        }
        return new ArrayList<>(sorted.values());
    }

    static ObjectMapper mapper() {
        ObjectMapper made = new ObjectMapper();
        made.getFactory().configure(org.apache.flink.shaded.jackson2.com.fasterxml.jackson.core.JsonGenerator.Feature.ESCAPE_NON_ASCII, true);
        return made;
    }

    static Object json(Object value) {
        try {
            return jsonOf(value);
        } catch (Exception wrong) {
            throw new IllegalStateException(wrong);
        }
    }

    static List<Object> each(Object array) {
        List<Object> made = new ArrayList<>();
        for (int place = 0; place < java.lang.reflect.Array.getLength(array); place++) {
            made.add(json(java.lang.reflect.Array.get(array, place)));
        }
        return made;
    }

    static Object jsonOf(Object value) throws Exception {
        if (value == null || value instanceof Boolean || value instanceof String) {
            return value;
        }
        if (value instanceof Byte || value instanceof Short || value instanceof Integer || value instanceof Long) {
            return number(((Number) value).longValue());
        }
        if (value instanceof Double || value instanceof Float) {
            return real(((Number) value).doubleValue());
        }
        if (value instanceof Character || value instanceof BigDecimal || value instanceof BigInteger || value instanceof LocalDate) {
            return value.toString();
        }
        if (value instanceof Enum) {
            return ((Enum<?>) value).name();
        }
        if (value instanceof byte[]) {
            return hex((byte[]) value);
        }
        if (value instanceof char[]) {
            return new String((char[]) value);
        }
        if (value.getClass().isArray()) {
            return each(value);
        }
        if (value instanceof java.util.Collection) {
            return each(((java.util.Collection<?>) value).toArray());
        }
        if (value instanceof Map) {
            return pairs((Map<?, ?>) value, ValueTypes::json, ValueTypes::json);
        }
        if (value instanceof Tuple) {
            List<Object> fields = new ArrayList<>();
            for (int place = 0; place < ((Tuple) value).getArity(); place++) {
                fields.add(json(((Tuple) value).getField(place)));
            }
            return fields;
        }
        if (value instanceof Row) {
            Map<String, Object> made = new LinkedHashMap<>();
            made.put("$kind", ((Row) value).getKind().shortString());
            for (int place = 0; place < ((Row) value).getArity(); place++) {
                made.put("f" + place, json(((Row) value).getField(place)));
            }
            return made;
        }
        if (value instanceof Either) {
            Either<?, ?> either = (Either<?, ?>) value;
            return Collections.singletonMap(either.isLeft() ? "left" : "right", json(either.isLeft() ? either.left() : either.right()));
        }
        if (value instanceof LocalTime) {
            return time((LocalTime) value);
        }
        if (value instanceof LocalDateTime) {
            return moment((LocalDateTime) value);
        }
        if (value instanceof Instant) {
            return utc((Instant) value);
        }
        if (value instanceof java.sql.Timestamp) {
            java.sql.Timestamp at = (java.sql.Timestamp) value;
            return utc(Math.floorDiv(at.getTime(), 1000), at.getNanos());
        }
        if (value instanceof java.util.Date) {
            long ms = ((java.util.Date) value).getTime();
            return utc(Math.floorDiv(ms, 1000), (int) Math.floorMod(ms, 1000) * 1_000_000);
        }
        if (value instanceof LongValue) {
            return number(((LongValue) value).getValue());
        }
        if (value instanceof IntValue) {
            return ((IntValue) value).getValue();
        }
        if (value instanceof ShortValue) {
            return ((ShortValue) value).getValue();
        }
        if (value instanceof ByteValue) {
            return ((ByteValue) value).getValue();
        }
        if (value instanceof CharValue) {
            return String.valueOf(((CharValue) value).getValue());
        }
        if (value instanceof DoubleValue) {
            return real(((DoubleValue) value).getValue());
        }
        if (value instanceof FloatValue) {
            return real(((FloatValue) value).getValue());
        }
        if (value instanceof BooleanValue) {
            return ((BooleanValue) value).getValue();
        }
        if (value instanceof StringValue) {
            return ((StringValue) value).getValue();
        }
        Map<String, Object> fields = new TreeMap<>();
        for (java.lang.reflect.Field field : value.getClass().getFields()) {
            fields.put(field.getName(), json(field.get(value)));
        }
        if (value instanceof Animal) {
            fields.put("$class", value.getClass().getName());
            for (String other : List.of("lives", "inner", "tail")) {
                fields.putIfAbsent(other, null);
            }
        }
        return fields;
    }

    static Object sql(Object value, LogicalType type, boolean isOuter) {
        if (value == null) {
            return null;
        }
        switch (type.getTypeRoot()) {
            case CHAR:
            case VARCHAR:
                return value.toString();
            case BINARY:
            case VARBINARY:
                return hex((byte[]) value);
            case DECIMAL:
                return ((DecimalData) value).toBigDecimal().toPlainString();
            case DATE:
                return LocalDate.ofEpochDay((Integer) value).toString();
            case TIME_WITHOUT_TIME_ZONE:
                return time(LocalTime.ofNanoOfDay((Integer) value * 1_000_000L));
            case TIMESTAMP_WITHOUT_TIME_ZONE:
                return moment(((TimestampData) value).toLocalDateTime());
            case TIMESTAMP_WITH_LOCAL_TIME_ZONE:
                return moment(((TimestampData) value).toLocalDateTime()) + "Z";
            case ARRAY:
                return elements((ArrayData) value, ((ArrayType) type).getElementType());
            case MAP:
                return entries((MapData) value, ((MapType) type).getKeyType(), ((MapType) type).getValueType());
            case MULTISET:
                return entries((MapData) value, ((MultisetType) type).getElementType(), new IntType());
            case ROW:
                return fields((RowData) value, (RowType) type, isOuter);
            default:
                return json(value);
        }
    }

    static List<Object> elements(ArrayData array, LogicalType type) {
        ArrayData.ElementGetter getter = ArrayData.createElementGetter(type);
        List<Object> made = new ArrayList<>();
        for (int place = 0; place < array.size(); place++) {
            made.add(sql(getter.getElementOrNull(array, place), type, false));
        }
        return made;
    }

    static List<Object> entries(MapData map, LogicalType ofKeys, LogicalType ofValues) {
        List<Object> keys = elements(map.keyArray(), ofKeys);
        List<Object> values = elements(map.valueArray(), ofValues);
        TreeMap<String, Object> sorted = new TreeMap<>();
        try {
            for (int place = 0; place < keys.size(); place++) {
                sorted.put(mapper().writeValueAsString(keys.get(place)), Arrays.asList(keys.get(place), values.get(place)));
            }
        } catch (Exception wrong) {
            throw new IllegalStateException(wrong);
        }
        return new ArrayList<>(sorted.values());
    }

    static Map<String, Object> fields(RowData row, RowType type, boolean isOuter) {
        Map<String, Object> made = new LinkedHashMap<>();
        if (isOuter) {
            made.put("$kind", row.getRowKind().shortString());
        }
        for (int place = 0; place < type.getFieldCount(); place++) {
            RowType.RowField field = type.getFields().get(place);
            Object held = RowData.createFieldGetter(field.getType(), place).getFieldOrNull(row);
            made.put(isOuter ? "f" + place : field.getName(), sql(held, field.getType(), false));
        }
        return made;
    }

    // --- the job ---------------------------------------------------------------------------------------------------

    /** Keeps the k-th value of each type for key k, then reads it back. */
    public static class Keep extends KeyedProcessFunction<Integer, Long, Long> implements CheckpointedFunction {
        private final boolean hasNulls;
        private final boolean reads;
        private final Map<String, ListState<Object>> split = new LinkedHashMap<>();
        private transient boolean isFirst;

        Keep(boolean hasNulls, boolean reads) {
            this.hasNulls = hasNulls;
            this.reads = reads;
        }

        @Override
        public void initializeState(FunctionInitializationContext context) throws Exception {
            for (Kind kind : KINDS) {
                split.put(kind.name(), context.getOperatorStateStore().getListState(new ListStateDescriptor<>(kind.name() + ".split", kind.serializer())));
            }
        }

        @Override
        public void snapshotState(FunctionSnapshotContext context) throws Exception {}

        @Override
        public void open(OpenContext context) throws Exception {
            isFirst = true;
        }

        @Override
        public void processElement(Long number, Context context, Collector<Long> out) throws Exception {
            int key = context.getCurrentKey();
            for (Kind kind : KINDS) {
                if (isFirst && !reads) {
                    List<Object> all = new ArrayList<>();
                    for (Object each : kind.values()) {
                        if (each != NULL) {
                            all.add(each);
                        }
                    }
                    split.get(kind.name()).update(all);
                    for (Object each : split.get(kind.name()).get()) {
                        row(kind, ".split", "SPLIT", "value", kind.json(each));
                    }
                }
                if (key < kind.values().size()) {
                    keep(kind, key);
                }
            }
            isFirst = false;
            DONE.incrementAndGet();
        }

        private void keep(Kind kind, int key) throws Exception {
            Object own = value(kind.values().get(key));
            Object next = value(kind.values().get((key + 1) % kind.values().size()));
            values(kind, key, own, null, "");
            list(kind, key, own, next, null, "");
            map(kind, key, own, next, null, "");
            if (kind.hasTtl()) {
                StateTtlConfig ttl = StateTtlConfig.newBuilder(java.time.Duration.ofDays(1)).build();
                values(kind, key, own, ttl, ".ttl");
                list(kind, key, own, next, ttl, ".ttl");
                map(kind, key, own, next, ttl, ".ttl");
            }
            if (kind.isKey() && own != null) {
                MapState<Object, Integer> keys = getRuntimeContext().getMapState(new MapStateDescriptor<>(kind.name() + ".keys", kind.serializer(), IntSerializer.INSTANCE));
                if (!reads) {
                    keys.put(own, -key);
                }
                for (Map.Entry<Object, Integer> entry : keys.entries()) {
                    row(kind, ".keys", "MAP", "key", key, "map_key", kind.json(entry.getKey()), "value", entry.getValue());
                }
            }
        }

        private void values(Kind kind, int key, Object own, StateTtlConfig ttl, String suffix) throws Exception {
            ValueStateDescriptor<Object> descriptor = new ValueStateDescriptor<>(kind.name() + suffix, kind.serializer());
            if (ttl != null) {
                descriptor.enableTimeToLive(ttl);
            }
            ValueState<Object> state = getRuntimeContext().getState(descriptor);
            if (own != null && !reads) {
                state.update(own);
            }
            Object held = state.value();
            if (held != null) {
                row(kind, suffix, "VALUE", "key", key, "value", kind.json(held));
            }
        }

        private void list(Kind kind, int key, Object own, Object next, StateTtlConfig ttl, String suffix) throws Exception {
            ListStateDescriptor<Object> descriptor = new ListStateDescriptor<>(kind.name() + suffix + ".list", kind.serializer());
            if (ttl != null) {
                descriptor.enableTimeToLive(ttl);
            }
            ListState<Object> state = getRuntimeContext().getListState(descriptor);
            for (Object each : Arrays.asList(own, next, own)) {
                if (each != null && !reads) {
                    state.add(each);
                }
            }
            int place = 0;
            for (Object each : state.get()) {
                row(kind, suffix + ".list", "LIST", "key", key, "list_index", place++, "value", kind.json(each));
            }
        }

        private void map(Kind kind, int key, Object own, Object next, StateTtlConfig ttl, String suffix) throws Exception {
            MapStateDescriptor<String, Object> descriptor = new MapStateDescriptor<>(kind.name() + suffix + ".map", StringSerializer.INSTANCE, kind.serializer());
            if (ttl != null) {
                descriptor.enableTimeToLive(ttl);
            }
            MapState<String, Object> state = getRuntimeContext().getMapState(descriptor);
            if (own != null && !reads) {
                state.put("own", own);
            }
            if (next != null && !reads) {
                state.put(WIDE, next);
            }
            if (hasNulls && ttl == null && !reads) {
                state.put("", null);
            }
            for (Map.Entry<String, Object> entry : state.entries()) {
                row(kind, suffix + ".map", "MAP", "key", key, "map_key", entry.getKey(), "value", kind.json(entry.getValue()));
            }
        }

        @SuppressWarnings("unchecked")
        private static void row(Kind kind, String suffix, String of, Object... columns) {
            Map<String, Object> state = TRUTH.computeIfAbsent(kind.name() + suffix, name -> {
                Map<String, Object> made = new TreeMap<>();
                made.put("kind", of);
                made.put("type", kind.serializer().getClass().getSimpleName());
                made.put("rows", new ArrayList<>());
                return made;
            });
            ((List<Object>) state.get("rows")).add(ValueTypes.map(columns));
        }
    }

    public static void main(String[] arguments) throws Exception {
        javaTypes();
        sqlTypes();
        runAll(arguments, "");
    }

    /** Take a savepoint of the kinds in each format from each state backend, or read the given savepoints. */
    static void runAll(String[] arguments, String prefix) throws Exception {
        Path folder = Path.of(arguments[0]);
        for (int place = 1; place < arguments.length; place++) {
            run(folder, arguments[place], arguments[place].contains("rocksdb") ? "rocksdb" : "hashmap", null, false);
        }
        if (arguments.length == 1) {
            run(folder, prefix + "canonical-heap", "hashmap", SavepointFormatType.CANONICAL, false);
            run(folder, prefix + "native-heap", "hashmap", SavepointFormatType.NATIVE, true);
            run(folder, prefix + "canonical-rocksdb", "rocksdb", SavepointFormatType.CANONICAL, true);
            run(folder, prefix + "native-rocksdb", "rocksdb", SavepointFormatType.NATIVE, true);
        }
        System.exit(0);
    }

    /** Take a savepoint of this format, or without one read the savepoint of this name. */
    static void run(Path folder, String name, String backend, SavepointFormatType format, boolean hasNulls) throws Exception {
        boolean reads = format == null;
        DONE.set(0);
        TRUTH.clear();
        int keys = KINDS.stream().mapToInt(kind -> kind.values().size()).max().getAsInt();
        Configuration settings = new Configuration();
        settings.setString("parallelism.default", "1");
        settings.setString("pipeline.max-parallelism", "16");
        settings.setString("state.backend.type", backend);
        settings.setString("taskmanager.memory.network.min", "16mb");
        settings.setString("taskmanager.memory.network.max", "16mb");
        settings.setString("restart-strategy.type", "none");
        settings.setString("execution.checkpointing.storage", "filesystem");
        settings.setString("execution.checkpointing.dir", "file://" + folder.resolve("checkpoints"));
        if (reads) {
            settings.setString("execution.state-recovery.path", "file://" + folder.resolve(name));
            settings.setString("execution.state-recovery.ignore-unclaimed-state", "true");
        }
        StreamExecutionEnvironment env = StreamExecutionEnvironment.createLocalEnvironment(settings);
        GeneratorFunction<Long, Long> numbers = n -> n;
        env.fromSource(
                        new DataGeneratorSource<>(numbers, 1_000_000_000L, RateLimiterStrategy.perSecond(50), Types.LONG),
                        WatermarkStrategy.noWatermarks(),
                        "numbers")
                .uid(reads ? "numbers from 0" : "numbers")
                .keyBy(n -> (int) (n % 1_000_000), Types.INT)
                .process(new Keep(hasNulls, reads))
                .returns(Types.LONG)
                .uid("keep")
                .sinkTo(new DiscardingSink<>())
                .uid("out");
        JobClient client = env.executeAsync("value types");
        while (DONE.get() < keys) {
            if (client.getJobStatus().get().isGloballyTerminalState()) {
                client.getJobExecutionResult().get();
            }
            Thread.sleep(20);
        }
        Path to = folder.resolve(name);
        String path = reads ? null : client.triggerSavepoint("file://" + folder.resolve("savepoints"), format).get();
        client.cancel().get();
        if (path != null) {
            Files.move(Path.of(path.substring("file:".length())), to);
        }
        Files.writeString(to.resolve(reads ? "read.json" : "truth.json"), mapper().writeValueAsString(TRUTH));
        System.out.println(name + ": " + TRUTH.size() + " states");
    }
}
