import java.io.File;
import java.nio.charset.StandardCharsets;
import java.util.concurrent.atomic.AtomicLong;
import java.util.zip.CRC32;

import org.apache.flink.api.common.JobExecutionResult;
import org.apache.flink.api.common.accumulators.LongCounter;
import org.apache.flink.api.common.eventtime.WatermarkStrategy;
import org.apache.flink.api.common.functions.AggregateFunction;
import org.apache.flink.api.common.functions.OpenContext;
import org.apache.flink.api.common.functions.RichMapFunction;
import org.apache.flink.api.common.state.ValueState;
import org.apache.flink.api.common.state.ValueStateDescriptor;
import org.apache.flink.api.common.typeinfo.TypeInformation;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.api.connector.source.lib.NumberSequenceSource;
import org.apache.flink.api.java.tuple.Tuple2;
import org.apache.flink.api.java.tuple.Tuple3;
import org.apache.flink.api.java.tuple.Tuple4;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.connector.file.src.FileSource;
import org.apache.flink.connector.file.src.reader.TextLineInputFormat;
import org.apache.flink.core.fs.Path;
import org.apache.flink.streaming.api.datastream.DataStream;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.streaming.api.functions.KeyedProcessFunction;
import org.apache.flink.streaming.api.functions.co.ProcessJoinFunction;
import org.apache.flink.streaming.api.functions.sink.v2.DiscardingSink;
import org.apache.flink.streaming.api.functions.windowing.ProcessWindowFunction;
import org.apache.flink.streaming.api.windowing.assigners.TumblingEventTimeWindows;
import org.apache.flink.streaming.api.windowing.windows.TimeWindow;
import org.apache.flink.util.Collector;

import java.time.Duration;

/**
 * The workloads as Flink jobs in its MiniCluster, parallelism 2, with the DataStream API.
 *
 * <p>Object reuse is on, state is on the heap, checkpoints go to files, rows are tuples of primitive types that Flink's
 * own serializers write. A tenth of the rows runs first in the same process. Timed is from the first row that a source
 * makes to the last one (W2: to the end of the job): what is in flight then are some thousand rows.
 */
public final class Peer {
    static final long KEYS = 100_000, SPREAD_KEYS = 5_000_000, WINDOW_KEYS = 10_000, START_MS = 10_000;
    static final long WIDE_KEYS = 2_000_000, STATE_MEMORY_MB = 26;
    static final long[] OCTAVES = {
        130_296_209, 229_994_871, 314_013_513, 388_531_740, 456_332_351, 518_805_605, 576_732_505, 630_612_038,
        680_805_204, 727_600_650, 771_245_361, 811_959_397, 849_943_242, 885_381_698, 918_446_144, 949_295_987,
        978_079_734, 1_004_935_838, 1_029_993_431, 1_053_372_974, 1_073_741_824,
    };
    static final long FOLD = 0x9E3779B97F4A7C15L;
    static final AtomicLong BEGIN = new AtomicLong(Long.MAX_VALUE), END = new AtomicLong(Long.MIN_VALUE);

    static long scatter(long number) {
        long mixed = number + 0x9E3779B97F4A7C15L;
        mixed = (mixed ^ (mixed >>> 30)) * 0xBF58476D1CE4E5B9L;
        mixed = (mixed ^ (mixed >>> 27)) * 0x94D049BB133111EBL;
        return (mixed ^ (mixed >>> 31)) >>> 1;
    }

    static long fold(long... values) {
        long folded = 0;
        for (long value : values) {
            folded = (folded + value) * FOLD;
        }
        return folded ^ (folded >>> 32);
    }

    static void seen(long number) {
        if ((number & 1023) == 0) {
            long now = System.nanoTime();
            BEGIN.accumulateAndGet(now, Math::min);
            END.accumulateAndGet(now, Math::max);
        }
    }

    /** Sums up what comes out, in an accumulator of the job. */
    abstract static class Checksum<T> extends RichMapFunction<T, Long> {
        private final LongCounter sum = new LongCounter();

        abstract long of(T row);

        @Override
        public void open(OpenContext context) {
            getRuntimeContext().addAccumulator("checksum", sum);
        }

        @Override
        public Long map(T row) {
            sum.add(of(row));
            return 0L;
        }
    }

    static final class ChecksumOfThree extends Checksum<Tuple3<Long, Long, Long>> {
        @Override
        long of(Tuple3<Long, Long, Long> row) {
            return fold(row.f0, row.f1, row.f2);
        }
    }

    /** Sum and count of a key, told at the end of the input. */
    static final class Sum extends KeyedProcessFunction<Long, Tuple2<Long, Long>, Tuple3<Long, Long, Long>> {
        private transient ValueState<Tuple2<Long, Long>> state;

        @Override
        public void open(OpenContext context) {
            state = getRuntimeContext().getState(
                    new ValueStateDescriptor<>("sum", Types.TUPLE(Types.LONG, Types.LONG)));
        }

        @Override
        public void processElement(Tuple2<Long, Long> row, Context ctx, Collector<Tuple3<Long, Long, Long>> out)
                throws Exception {
            Tuple2<Long, Long> sum = state.value();
            if (sum == null) {
                sum = Tuple2.of(0L, 0L);
                ctx.timerService().registerEventTimeTimer(Long.MAX_VALUE);
            }
            sum.f0 += row.f1;
            sum.f1 += 1;
            state.update(sum);
        }

        @Override
        public void onTimer(long at, OnTimerContext ctx, Collector<Tuple3<Long, Long, Long>> out) throws Exception {
            Tuple2<Long, Long> sum = state.value();
            out.collect(Tuple3.of(ctx.getCurrentKey(), sum.f0, sum.f1));
        }
    }

    /** Sum, count and last values of a key; the first two are told at the end of the input. */
    static final class Wide extends KeyedProcessFunction<Long, Tuple2<Long, long[]>, Tuple3<Long, Long, Long>> {
        private transient ValueState<long[]> state;

        @Override
        public void open(OpenContext context) {
            state = getRuntimeContext().getState(new ValueStateDescriptor<>("wide", LONGS));
        }

        @Override
        public void processElement(Tuple2<Long, long[]> row, Context ctx, Collector<Tuple3<Long, Long, Long>> out)
                throws Exception {
            long[] held = state.value();
            if (held == null) {
                held = new long[row.f1.length + 1];
                ctx.timerService().registerEventTimeTimer(Long.MAX_VALUE);
            }
            held[0] += row.f1[0];
            held[1] += 1;
            System.arraycopy(row.f1, 1, held, 2, row.f1.length - 1);
            state.update(held);
        }

        @Override
        public void onTimer(long at, OnTimerContext ctx, Collector<Tuple3<Long, Long, Long>> out) throws Exception {
            long[] held = state.value();
            out.collect(Tuple3.of(ctx.getCurrentKey(), held[0], held[1]));
        }
    }

    /** How often a word was seen, told at the end of the input. */
    static final class Count extends KeyedProcessFunction<String, String, Tuple2<String, Long>> {
        private transient ValueState<Long> state;

        @Override
        public void open(OpenContext context) {
            state = getRuntimeContext().getState(new ValueStateDescriptor<>("count", Types.LONG));
        }

        @Override
        public void processElement(String word, Context ctx, Collector<Tuple2<String, Long>> out) throws Exception {
            Long count = state.value();
            if (count == null) {
                ctx.timerService().registerEventTimeTimer(Long.MAX_VALUE);
                count = 0L;
            }
            state.update(count + 1);
        }

        @Override
        public void onTimer(long at, OnTimerContext ctx, Collector<Tuple2<String, Long>> out) throws Exception {
            out.collect(Tuple2.of(ctx.getCurrentKey(), state.value()));
        }
    }

    static final class WindowSum implements AggregateFunction<Tuple3<Long, Long, Long>, Tuple2<Long, Long>, Tuple2<Long, Long>> {
        @Override
        public Tuple2<Long, Long> createAccumulator() {
            return Tuple2.of(0L, 0L);
        }

        @Override
        public Tuple2<Long, Long> add(Tuple3<Long, Long, Long> row, Tuple2<Long, Long> sum) {
            sum.f0 += row.f1;
            sum.f1 += 1;
            return sum;
        }

        @Override
        public Tuple2<Long, Long> getResult(Tuple2<Long, Long> sum) {
            return sum;
        }

        @Override
        public Tuple2<Long, Long> merge(Tuple2<Long, Long> a, Tuple2<Long, Long> b) {
            return Tuple2.of(a.f0 + b.f0, a.f1 + b.f1);
        }
    }

    static final TypeInformation<long[]> LONGS =
            org.apache.flink.api.common.typeinfo.PrimitiveArrayTypeInfo.LONG_PRIMITIVE_ARRAY_TYPE_INFO;
    static final TypeInformation<Tuple2<Long, Long>> PAIR = Types.TUPLE(Types.LONG, Types.LONG);
    static final TypeInformation<Tuple3<Long, Long, Long>> TRIPLE = Types.TUPLE(Types.LONG, Types.LONG, Types.LONG);
    static final TypeInformation<Tuple4<Long, Long, Long, Long>> FOUR =
            Types.TUPLE(Types.LONG, Types.LONG, Types.LONG, Types.LONG);

    static DataStream<Long> numbers(StreamExecutionEnvironment env, long rows) {
        return env.fromSource(new NumberSequenceSource(0, rows - 1), WatermarkStrategy.noWatermarks(), "numbers");
    }

    /** Two subtasks take turns row by row: each works out its own half of the numbers. */
    static DataStream<Long> interleaved(StreamExecutionEnvironment env, long rows) {
        long half = rows / 2;
        return numbers(env, rows).map(at -> at < half ? 2 * at : 2 * (at - half) + 1).returns(Types.LONG);
    }

    static DataStream<Tuple2<Long, Long>> keyed(StreamExecutionEnvironment env, long rows, boolean spread) {
        return numbers(env, rows).map(number -> {
            seen(number);
            long scattered = scatter(number);
            long key = spread ? scatter(scattered % SPREAD_KEYS) * 2 - (1L << 62) : scattered % KEYS;
            return Tuple2.of(key, number % 100);
        }).returns(PAIR);
    }

    static DataStream<Tuple3<Long, Long, Long>> timed(
            DataStream<Long> numbers, int side, long rowsPerMs, long disorderMs) {
        return numbers.map(number -> {
            seen(number);
            long scattered = scatter(side < 0 ? number : 2 * number + side);
            long at = START_MS + number / rowsPerMs - (disorderMs > 0 ? (scattered >> 32) % disorderMs : 0);
            return Tuple3.of(scattered % (side < 0 ? WINDOW_KEYS : KEYS), number % 100, at);
        }).returns(TRIPLE).assignTimestampsAndWatermarks(
                WatermarkStrategy.<Tuple3<Long, Long, Long>>forBoundedOutOfOrderness(Duration.ofMillis(disorderMs))
                        .withTimestampAssigner((row, before) -> row.f2));
    }

    static long rank(long scattered) {
        int octave = 0;
        while (octave < OCTAVES.length - 1 && (scattered & ((1L << 30) - 1)) >= OCTAVES[octave]) {
            octave++;
        }
        long first = 1L << octave;
        return first - 1 + (scattered >> 30) % Math.min(first, WIDE_KEYS + 1 - first);
    }

    static DataStream<Tuple2<Long, long[]>> wide(StreamExecutionEnvironment env, long rows, boolean zipf) {
        return interleaved(env, rows).map(number -> {
            seen(number);
            long scattered = scatter(number);
            long key = number < WIDE_KEYS ? number : zipf ? rank(scattered) : scattered % WIDE_KEYS;
            long[] values = new long[11];
            values[0] = number % 100;
            for (int at = 0; at < 10; at++) {
                values[at + 1] = number + at;
            }
            return Tuple2.of(scatter(key) * 2 - (1L << 62), values);
        }).returns(Types.TUPLE(Types.LONG, LONGS));
    }

    static DataStream<Long> job(StreamExecutionEnvironment env, String workload, long rows, File texts) {
        switch (workload) {
            case "W1":
            case "W1r":
                return keyed(env, rows, workload.equals("W1r"))
                        .keyBy(row -> row.f0, Types.LONG).process(new Sum(), TRIPLE)
                        .map(new ChecksumOfThree());
            case "W7":
            case "W7z":
                return wide(env, rows, workload.equals("W7z"))
                        .keyBy(row -> row.f0, Types.LONG).process(new Wide(), TRIPLE)
                        .map(new ChecksumOfThree());
            case "W2":
                return env.fromSource(lines(texts, rows), WatermarkStrategy.noWatermarks(), "lines")
                        .<String>flatMap((line, out) -> {
                            seen(0);
                            for (int from = 0, to; from <= line.length(); from = to + 1) {
                                to = line.indexOf(' ', from);
                                to = to < 0 ? line.length() : to;
                                out.collect(line.substring(from, to));
                            }
                        }).returns(Types.STRING)
                        .keyBy(word -> word, Types.STRING).process(new Count(), Types.TUPLE(Types.STRING, Types.LONG))
                        .map(new Checksum<Tuple2<String, Long>>() {
                            @Override
                            long of(Tuple2<String, Long> row) {
                                CRC32 crc = new CRC32();
                                crc.update(row.f0.getBytes(StandardCharsets.UTF_8));
                                return fold(crc.getValue(), row.f1);
                            }
                        });
            case "W3":
                return timed(interleaved(env, rows), -1, 200, 2_000)
                        .keyBy(row -> row.f0, Types.LONG)
                        .window(TumblingEventTimeWindows.of(Duration.ofMillis(1_000)))
                        .allowedLateness(Duration.ofMillis(2_000))
                        .aggregate(new WindowSum(), new ProcessWindowFunction<Tuple2<Long, Long>, Tuple4<Long, Long, Long, Long>, Long, TimeWindow>() {
                            @Override
                            public void process(Long key, Context ctx, Iterable<Tuple2<Long, Long>> sums,
                                    Collector<Tuple4<Long, Long, Long, Long>> out) {
                                Tuple2<Long, Long> sum = sums.iterator().next();
                                out.collect(Tuple4.of(key, ctx.window().getStart(), sum.f0, sum.f1));
                            }
                        }, PAIR, PAIR, FOUR)
                        .map(new Checksum<Tuple4<Long, Long, Long, Long>>() {
                            @Override
                            long of(Tuple4<Long, Long, Long, Long> row) {
                                return fold(row.f0, row.f1, row.f2, row.f3);
                            }
                        });
            case "W4":
                return timed(interleaved(env, rows / 2), 0, 50, 0).keyBy(row -> row.f0, Types.LONG)
                        .intervalJoin(timed(interleaved(env, rows / 2), 1, 50, 0).keyBy(row -> row.f0, Types.LONG))
                        .between(Duration.ofMillis(-1_000), Duration.ofMillis(1_000))
                        .process(new ProcessJoinFunction<Tuple3<Long, Long, Long>, Tuple3<Long, Long, Long>, Tuple3<Long, Long, Long>>() {
                            @Override
                            public void processElement(Tuple3<Long, Long, Long> left, Tuple3<Long, Long, Long> right,
                                    Context ctx, Collector<Tuple3<Long, Long, Long>> out) {
                                out.collect(Tuple3.of(left.f0, left.f1, right.f1));
                            }
                        }, TRIPLE)
                        .map(new ChecksumOfThree());
            default:
                throw new IllegalArgumentException(workload);
        }
    }

    static FileSource<String> lines(File texts, long rows) {
        Path[] paths = new Path[(int) (rows / 1_000_000)];
        for (int file = 0; file < paths.length; file++) {
            paths[file] = new Path(new File(texts, String.format("text-%04d.txt", file)).toURI());
        }
        return FileSource.forRecordStreamFormat(new TextLineInputFormat(), paths).build();
    }

    static String run(String workload, long rows, File directory, long intervalMs) throws Exception {
        BEGIN.set(Long.MAX_VALUE);
        END.set(Long.MIN_VALUE);
        Configuration settings = new Configuration();
        boolean onDisk = workload.startsWith("W7");
        settings.setString("state.backend.type", onDisk ? "rocksdb" : "hashmap");
        settings.setString("execution.checkpointing.incremental", String.valueOf(onDisk));
        settings.setString("state.backend.rocksdb.timer-service.factory", "heap");
        settings.setString("state.backend.rocksdb.localdir", new File(directory, "rocksdb").getAbsolutePath());
        settings.setString("execution.checkpointing.storage", "filesystem");
        settings.setString("execution.checkpointing.dir", new File(directory, "checkpoints").toURI().toString());
        settings.setString("pipeline.object-reuse", "true");
        settings.setString("pipeline.generic-types", "false");
        settings.setString("taskmanager.memory.network.min", "256mb");
        settings.setString("taskmanager.memory.network.max", "256mb");
        settings.setString("taskmanager.memory.managed.size", onDisk ? 2 * STATE_MEMORY_MB + "mb" : "256mb");
        settings.setString("restart-strategy.type", "none");
        StreamExecutionEnvironment env = StreamExecutionEnvironment.createLocalEnvironment(2, settings);
        env.setBufferTimeout(100);
        if (intervalMs > 0) {
            env.enableCheckpointing(intervalMs);
        }
        job(env, workload, rows, new File(directory, "text")).sinkTo(new DiscardingSink<>());
        long started = System.nanoTime();
        JobExecutionResult result = env.execute(workload);
        double seconds = (END.get() - BEGIN.get()) / 1e9;
        long sum = result.<Long>getAccumulatorResult("checksum");
        return String.format(
                "{\"rows\": %d, \"seconds\": %.4f, \"checkpoints\": %d, \"checksum\": %s}",
                rows, seconds, (long) (seconds * 1_000 / Math.max(intervalMs, 1)), Long.toUnsignedString(sum));
    }

    public static void main(String[] args) throws Exception {
        String workload = args[0];
        long rows = Long.parseLong(args[1]);
        File directory = new File(args[2]);
        long intervalMs = args.length > 3 ? Long.parseLong(args[3]) : 1_000;
        long few = workload.equals("W2") ? Math.max(rows / 10 / 1_000_000, 1) * 1_000_000 : Math.max(rows / 40 * 4, 4);
        run(workload, few, directory, intervalMs);
        System.out.println(run(workload, rows, directory, intervalMs));
        System.exit(0);
    }
}
