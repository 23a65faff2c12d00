import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.flink.api.common.eventtime.WatermarkStrategy;
import org.apache.flink.api.common.functions.OpenContext;
import org.apache.flink.api.common.state.ListState;
import org.apache.flink.api.common.state.ListStateDescriptor;
import org.apache.flink.api.common.state.MapState;
import org.apache.flink.api.common.state.MapStateDescriptor;
import org.apache.flink.api.common.state.ReducingState;
import org.apache.flink.api.common.state.ReducingStateDescriptor;
import org.apache.flink.api.common.state.StateTtlConfig;
import org.apache.flink.api.common.state.ValueState;
import org.apache.flink.api.common.state.ValueStateDescriptor;
import org.apache.flink.api.common.typeinfo.TypeInformation;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.api.connector.source.util.ratelimit.RateLimiterStrategy;
import org.apache.flink.api.java.tuple.Tuple2;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.connector.datagen.source.DataGeneratorSource;
import org.apache.flink.connector.datagen.source.GeneratorFunction;
import org.apache.flink.core.execution.JobClient;
import org.apache.flink.core.execution.SavepointFormatType;
import org.apache.flink.streaming.api.datastream.DataStream;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.streaming.api.functions.KeyedProcessFunction;
import org.apache.flink.streaming.api.functions.sink.v2.DiscardingSink;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.databind.ObjectMapper;
import org.apache.flink.types.Row;
import org.apache.flink.util.Collector;

/**
 * The job behind tests/interop/surgery.py: it keeps states of several kinds for the keys 0, 1, ..., and for these as
 * strings and tuples. Arguments are name=value:
 *
 * <p>mode=make: process the rows up to `rows`, then take a savepoint of `format` into `directory`, and print where it is. With `savepoint` the
 * job is restored first, and its source continues at row `first`.
 *
 * <p>mode=read: restore from `savepoint`, and print the states of every key as a JSON object a line. The first is
 * {"first": n}, the first number that the restored source emits.
 *
 * <p>Several jobs run one after another, with "--" between their arguments; each first prints {"case": its `case`}.
 *
 * <p>Others: keys, parallelism, maxParallelism, backend, and the uids of the operators (longs, strings, tuples).
 */
public class SurgeryJob {
    static final Set<String> SEEN = ConcurrentHashMap.newKeySet();
    static final List<String> LINES = Collections.synchronizedList(new ArrayList<>());
    static final AtomicLong ROWS = new AtomicLong();
    static final AtomicLong FIRST = new AtomicLong(-1);
    static final Map<String, String> ARGUMENTS = new TreeMap<>();

    static long number(String name, long otherwise) {
        return Long.parseLong(ARGUMENTS.getOrDefault(name, Long.toString(otherwise)));
    }

    static void print(Map<String, Object> row) throws Exception {
        LINES.add(new ObjectMapper().writeValueAsString(row));
    }

    /** All kinds of state, for keys of any type. */
    public static class Keep<K> extends KeyedProcessFunction<K, Long, Long> {
        private final String uid;
        private final long rows;
        private final boolean reads;
        private transient ValueState<Long> total;
        private transient ValueState<String> name;
        private transient ValueState<Tuple2<String, Integer>> pair;
        private transient ListState<Long> items;
        private transient MapState<String, Long> words;
        private transient ReducingState<Long> most;
        private transient ValueState<Row> profile;
        private transient ListState<Row> visits;
        private transient MapState<String, List<Long>> marks;
        private transient ValueState<Long> lately;
        private transient ListState<String> latest;
        private transient MapState<String, Long> recent;

        Keep(String uid, long rows, boolean reads) {
            this.uid = uid;
            this.rows = rows;
            this.reads = reads;
        }

        @Override
        public void open(OpenContext context) {
            total = getRuntimeContext().getState(new ValueStateDescriptor<>("total", Types.LONG));
            name = getRuntimeContext().getState(new ValueStateDescriptor<>("name", Types.STRING));
            pair = getRuntimeContext().getState(new ValueStateDescriptor<>("pair", Types.TUPLE(Types.STRING, Types.INT)));
            items = getRuntimeContext().getListState(new ListStateDescriptor<>("items", Types.LONG));
            words = getRuntimeContext().getMapState(new MapStateDescriptor<>("words", Types.STRING, Types.LONG));
            most = getRuntimeContext().getReducingState(new ReducingStateDescriptor<>("most", Math::max, Types.LONG));
            if (reads) {
                openNew();
            }
        }

        /** States that only a changed savepoint has. */
        private void openNew() {
            TypeInformation<Row> visit = Types.ROW_NAMED(new String[] {"at", "price"}, Types.INSTANT, Types.BIG_DEC);
            TypeInformation<Row> held = Types.ROW_NAMED(
                    new String[] {"city", "tags", "scores", "visit"},
                    Types.STRING, Types.LIST(Types.STRING), Types.MAP(Types.STRING, Types.DOUBLE), visit);
            profile = getRuntimeContext().getState(new ValueStateDescriptor<>("profile", held));
            visits = getRuntimeContext().getListState(new ListStateDescriptor<>("visits", visit));
            marks = getRuntimeContext().getMapState(new MapStateDescriptor<>("marks", Types.STRING, Types.LIST(Types.LONG)));
            openExpiring();
        }

        /** States with a TTL, which only a changed savepoint has. */
        private void openExpiring() {
            StateTtlConfig ttl = StateTtlConfig.newBuilder(Duration.ofDays(1)).build();
            ValueStateDescriptor<Long> value = new ValueStateDescriptor<>("lately", Types.LONG);
            ListStateDescriptor<String> list = new ListStateDescriptor<>("latest", Types.STRING);
            MapStateDescriptor<String, Long> map = new MapStateDescriptor<>("recent", Types.STRING, Types.LONG);
            value.enableTimeToLive(ttl);
            list.enableTimeToLive(ttl);
            map.enableTimeToLive(ttl);
            lately = getRuntimeContext().getState(value);
            latest = getRuntimeContext().getListState(list);
            recent = getRuntimeContext().getMapState(map);
        }

        @Override
        public void processElement(Long row, Context context, Collector<Long> out) throws Exception {
            if (reads) {
                FIRST.accumulateAndGet(row, (old, one) -> old < 0 ? one : Math.min(old, one));
                String key = String.valueOf(context.getCurrentKey());
                if (SEEN.add(uid + " " + key)) {
                    show(key);
                }
            } else if (row < rows) {
                keep(row, context);
                ROWS.incrementAndGet();
            }
        }

        private void keep(long row, Context context) throws Exception {
            total.update((total.value() == null ? 0 : total.value()) + row);
            name.update("key " + context.getCurrentKey() + " \u00fc\ud83d\ude00");
            pair.update(Tuple2.of("row", (int) row));
            items.add(row);
            words.put("w" + row % 3, row);
            most.add(row);
            context.timerService().registerEventTimeTimer(1_000_000 + row);
            context.timerService().registerProcessingTimeTimer(4_000_000_000_000L + row);
        }

        private void show(String key) throws Exception {
            Map<String, Object> row = new TreeMap<>();
            row.put("uid", uid);
            row.put("key", key);
            row.put("total", total.value());
            row.put("name", name.value());
            Tuple2<String, Integer> held = pair.value();
            row.put("pair", held == null ? null : List.of(held.f0, held.f1));
            List<Long> all = new ArrayList<>();
            items.get().forEach(all::add);
            row.put("items", all);
            Map<String, Long> found = new TreeMap<>();
            for (Map.Entry<String, Long> entry : words.entries()) {
                found.put(entry.getKey(), entry.getValue());
            }
            row.put("words", found);
            row.put("most", most.get());
            if (profile.value() != null) {
                showNew(row);
            }
            showExpiring(row);
            print(row);
        }

        private void showExpiring(Map<String, Object> row) throws Exception {
            List<String> elements = new ArrayList<>();
            latest.get().forEach(elements::add);
            Map<String, Long> found = new TreeMap<>();
            for (Map.Entry<String, Long> entry : recent.entries()) {
                found.put(entry.getKey(), entry.getValue());
            }
            if (!elements.isEmpty()) {
                row.put("lately", lately.value());
                row.put("latest", elements);
                row.put("recent", found);
            }
        }

        private void showNew(Map<String, Object> row) throws Exception {
            Row held = profile.value();
            Row visit = held.getFieldAs(3); // a snapshot has no names of fields
            row.put("profile", Arrays.asList(
                    held.getField(0), held.getField(1), held.getField(2), visit == null ? null : text(visit)));
            List<Object> all = new ArrayList<>();
            for (Row each : visits.get()) {
                all.add(text(each));
            }
            row.put("visits", all);
            Map<String, List<Long>> found = new TreeMap<>();
            for (Map.Entry<String, List<Long>> entry : marks.entries()) {
                found.put(entry.getKey(), entry.getValue());
            }
            row.put("marks", found);
        }

        private static String text(Row visit) {
            return visit.getField(0) + " " + visit.getField(1);
        }

        @Override
        public void onTimer(long time, OnTimerContext context, Collector<Long> out) {}
    }

    public static void main(String[] arguments) throws Exception {
        for (String argument : arguments) {
            if (argument.equals("--")) {
                runOnce();
                ARGUMENTS.clear();
            } else {
                String[] pair = argument.split("=", 2);
                ARGUMENTS.put(pair[0], pair[1]);
            }
        }
        runOnce();
        System.exit(0);
    }

    /** Run one job, and print what it says or why it failed. */
    static void runOnce() throws Exception {
        SEEN.clear();
        LINES.clear();
        ROWS.set(0);
        FIRST.set(-1);
        System.out.println("{\"case\": \"" + ARGUMENTS.get("case") + "\"}");
        try {
            run();
        } catch (Exception failed) {
            Throwable cause = failed;
            while (cause.getCause() != null) {
                cause = cause.getCause();
            }
            System.out.println(new ObjectMapper().writeValueAsString(Map.of("error", String.valueOf(cause))));
        }
    }

    static void run() throws Exception {
        boolean reads = ARGUMENTS.get("mode").equals("read");
        long keys = number("keys", 20);
        long rows = number("rows", 200);
        JobClient client = job(reads, keys, rows).executeAsync("surgery");
        try {
            if (reads) {
                read(client, 3 * keys);
            } else {
                while (ROWS.get() < 3 * (rows - number("first", 0))) {
                    Thread.sleep(20);
                }
                SavepointFormatType format = SavepointFormatType.valueOf(ARGUMENTS.getOrDefault("format", "CANONICAL"));
                String path = client.triggerSavepoint(ARGUMENTS.get("directory"), format).get();
                System.out.println(new ObjectMapper().writeValueAsString(Map.of("savepoint", path)));
            }
        } finally {
            try {
                client.cancel().get();
                client.getJobExecutionResult().get();
            } catch (Exception ended) {
                // cancelled, or it has failed: its tasks print nothing more
            }
        }
    }

    /** Print the states of every key, or why the job failed. */
    static void read(JobClient client, long wanted) throws Exception {
        while (LINES.size() < wanted) {
            if (client.getJobStatus().get().isGloballyTerminalState()) {
                client.getJobExecutionResult().get();
                throw new IllegalStateException("the job ended early");
            }
            Thread.sleep(20);
        }
        System.out.println("{\"first\": " + FIRST.get() + "}");
        LINES.forEach(System.out::println);
    }

    static StreamExecutionEnvironment job(boolean reads, long keys, long rows) {
        Configuration settings = new Configuration();
        settings.setString("parallelism.default", ARGUMENTS.getOrDefault("parallelism", "2"));
        settings.setString("pipeline.max-parallelism", ARGUMENTS.getOrDefault("maxParallelism", "128"));
        settings.setString("state.backend.type", ARGUMENTS.getOrDefault("backend", "hashmap"));
        settings.setString("taskmanager.memory.network.min", "16mb");
        settings.setString("taskmanager.memory.network.max", "16mb");
        settings.setString("taskmanager.numberOfTaskSlots", "4");
        settings.setString("restart-strategy.type", "none");
        settings.setString("execution.checkpointing.storage", "filesystem");
        settings.setString("execution.checkpointing.dir", ARGUMENTS.get("checkpoints"));
        settings.setString("execution.checkpointing.data-inline-threshold", ARGUMENTS.getOrDefault("inline", "0b"));
        if (ARGUMENTS.containsKey("savepoint")) {
            settings.setString("execution.state-recovery.path", ARGUMENTS.get("savepoint"));
        }
        StreamExecutionEnvironment env = StreamExecutionEnvironment.createLocalEnvironment(settings);
        GeneratorFunction<Long, Long> numbers = n -> n;
        DataStream<Long> stream =
                env.fromSource(
                                new DataGeneratorSource<>(numbers, 1_000_000_000L, RateLimiterStrategy.perSecond(4_000), Types.LONG),
                                WatermarkStrategy.noWatermarks(),
                                "numbers")
                        .setParallelism(1)
                        .uid(ARGUMENTS.getOrDefault("numbers", "numbers"));
        String longs = ARGUMENTS.getOrDefault("longs", "longs");
        String strings = ARGUMENTS.getOrDefault("strings", "strings");
        String tuples = ARGUMENTS.getOrDefault("tuples", "tuples");
        stream.keyBy(n -> n % keys, Types.LONG).process(new Keep<Long>("longs", rows, reads)).returns(Types.LONG).uid(longs)
                .sinkTo(new DiscardingSink<>()).uid("sink-1");
        stream.keyBy(n -> "key " + n % keys, Types.STRING).process(new Keep<String>("strings", rows, reads)).returns(Types.LONG).uid(strings)
                .sinkTo(new DiscardingSink<>()).uid("sink-2");
        stream.keyBy(n -> Tuple2.of("t" + n % keys, (int) (n % keys)), Types.TUPLE(Types.STRING, Types.INT))
                .process(new Keep<Tuple2<String, Integer>>("tuples", rows, reads)).returns(Types.LONG).uid(tuples)
                .sinkTo(new DiscardingSink<>()).uid("sink-3");
        return env;
    }
}
