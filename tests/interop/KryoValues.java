import java.time.*;
import java.util.*;
import org.apache.flink.api.common.serialization.SerializerConfigImpl;
import org.apache.flink.api.common.typeutils.TypeSerializer;
import org.apache.flink.api.java.typeutils.GenericTypeInfo;
import org.apache.flink.core.memory.DataOutputSerializer;

/** Writes simple values with Flink's KryoSerializer: a line each with the declared class, the bytes in hex, and a name. */
public class KryoValues {
    static <T> void show(Class<T> declared, Object... values) throws Exception {
        TypeSerializer<T> serializer = new GenericTypeInfo<T>(declared).createSerializer(new SerializerConfigImpl());
        for (Object value : values) {
            DataOutputSerializer out = new DataOutputSerializer(64);
            @SuppressWarnings("unchecked") T held = (T) value;
            serializer.serialize(held, out);
            StringBuilder hex = new StringBuilder();
            for (byte each : out.getCopyOfBuffer()) hex.append(String.format("%02x", each));
            System.out.println(declared.getName() + "\t" + hex + "\t" + (value.getClass().isArray() ? "array" : value));
        }
    }
    public static void main(String[] args) throws Exception {
        String longText = "0123456789".repeat(20);
        show(Object.class, 5, 300, -7, Integer.MIN_VALUE, -7L, Long.MIN_VALUE, Long.MAX_VALUE, 1.5, 2.5f, true, false,
            'x', (byte) -3, (short) -4, "", "k", "ab", "h\u00e9llo", "\u6f22\ud83d\ude00", longText, longText + "\u00e9");
        show(Long.class, 42L);
        show(String.class, "text");
        show(ArrayList.class, new ArrayList<>(Arrays.asList(1, "ab", 2L, null, 1.0, "ab")), new ArrayList<>(),
            new ArrayList<>(List.of(1, 2, 300)), new ArrayList<>(Arrays.asList(1, null, 3)), new ArrayList<>(List.of("a", "bc", "a")),
            new ArrayList<>(Arrays.asList("a", null)), new ArrayList<>(Arrays.asList(null, null)), new ArrayList<>(Collections.nCopies(100, 7)),
            new ArrayList<>(List.of(new ArrayList<>(List.of(1)), new ArrayList<>())));
        show(LinkedList.class, new LinkedList<>(List.of("x", 1)));
        show(HashSet.class, new HashSet<>(List.of(9)));
        show(TreeSet.class, new TreeSet<>(List.of(1, 2)));
        show(HashMap.class, new HashMap<>(Map.of("k", 7)), new HashMap<>());
        show(LinkedHashMap.class, new LinkedHashMap<>(Map.of("k", new ArrayList<>(List.of(1)))));
        show(TreeMap.class, new TreeMap<>(Map.of("a", 1, "b", 2)));
        show(Duration.class, Duration.ofSeconds(5, 7), Duration.ofSeconds(-5));
        show(ZonedDateTime.class, ZonedDateTime.parse("2020-01-02T03:04:05.000000006+01:00[Europe/Paris]"));
        show(OffsetDateTime.class, OffsetDateTime.parse("2020-01-02T03:04:05.6+01:00"), OffsetDateTime.parse("2020-01-02T03:04+01:00:30"));
        show(Object.class, LocalDate.of(2020, 1, 2), LocalTime.of(0, 0), LocalTime.of(1, 2), LocalTime.of(1, 2, 3), LocalTime.of(1, 2, 3, 4),
            LocalDateTime.of(2020, 1, 2, 3, 4), Instant.ofEpochSecond(5, 6), Instant.ofEpochSecond(-5), ZoneOffset.ofHours(-1), Year.of(2020),
            YearMonth.of(2020, 3), MonthDay.of(3, 4), Period.of(1, -2, 3));
        show(UUID.class, new UUID(1, -2));
        show(Object.class, new java.math.BigDecimal("-1.50"), new java.math.BigInteger("12345678901"), new Date(5), new byte[] {1, -2}, new int[] {1, -1}, new long[] {5});
        show(Optional.class, Optional.of("x"), Optional.empty());
    }
}
