import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.time.LocalDateTime;
import java.time.ZoneOffset;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.flink.api.common.eventtime.WatermarkStrategy;
import org.apache.flink.api.common.functions.MapFunction;
import org.apache.flink.api.common.typeinfo.TypeInformation;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.api.connector.source.util.ratelimit.RateLimiterStrategy;
import org.apache.flink.api.java.tuple.Tuple2;
import org.apache.flink.cep.CEP;
import org.apache.flink.cep.functions.PatternProcessFunction;
import org.apache.flink.cep.pattern.Pattern;
import org.apache.flink.cep.pattern.conditions.SimpleCondition;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.connector.datagen.source.DataGeneratorSource;
import org.apache.flink.connector.datagen.source.GeneratorFunction;
import org.apache.flink.core.execution.JobClient;
import org.apache.flink.core.execution.SavepointFormatType;
import org.apache.flink.streaming.api.datastream.AsyncDataStream;
import org.apache.flink.streaming.api.datastream.DataStream;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.streaming.api.functions.async.AsyncFunction;
import org.apache.flink.streaming.api.functions.async.ResultFuture;
import org.apache.flink.streaming.api.functions.co.ProcessJoinFunction;
import org.apache.flink.streaming.api.functions.sink.v2.DiscardingSink;
import org.apache.flink.streaming.api.windowing.assigners.TumblingEventTimeWindows;
import org.apache.flink.table.api.Schema;
import org.apache.flink.table.api.bridge.java.StreamTableEnvironment;
import org.apache.flink.types.Row;
import org.apache.flink.util.Collector;

/**
 * A savepoint of the operators that Flink itself has, with serializers of their own: joins, CEP, asynchronous functions, SQL.
 *
 * <p>Arguments: the folder to write to. Its input is in tests/snapshots/test_operator_states.py once more: row n has the key n % 3.
 */
public class OperatorStates {
    static final long ROWS = 12;
    static final AtomicLong SEEN = new AtomicLong();
    static final LocalDateTime START = LocalDateTime.of(1969, 12, 31, 23, 59, 50);
    static final TypeInformation<Row> TYPE =
            Types.ROW_NAMED(
                    new String[] {"k", "n", "name", "ts", "places", "counts", "inner"},
                    Types.INT, Types.LONG, Types.STRING, Types.LOCAL_DATE_TIME, Types.OBJECT_ARRAY(Types.INT), Types.MAP(Types.STRING, Types.LONG),
                    Types.ROW_NAMED(new String[] {"a", "b"}, Types.STRING, Types.DOUBLE));

    static Row row(long n) {
        String name = n % 5 == 4 ? null : "n" + n + " \ud83d\ude00";
        Integer[] places = n % 4 == 3 ? null : new Integer[] {(int) n, null, -1};
        Row inner = n % 3 == 2 ? null : Row.of(n % 2 == 0 ? null : "inner " + n, -0.5 * n);
        return Row.of((int) (n % 3), n, name, START.plusSeconds(n).plusNanos(1_000_000 * n), places, n % 4 == 1 ? Map.of() : Map.of("x", -n), inner);
    }

    static DataStream<Row> rows(StreamExecutionEnvironment env) {
        GeneratorFunction<Long, Long> numbers = n -> n;
        return env.fromSource(
                        new DataGeneratorSource<>(numbers, 1_000_000_000L, RateLimiterStrategy.perSecond(200), Types.LONG),
                        WatermarkStrategy.noWatermarks(),
                        "numbers")
                .uid("numbers")
                .filter(n -> {
                    SEEN.incrementAndGet();
                    return n < ROWS;
                })
                .uid("first")
                .map((MapFunction<Long, Row>) OperatorStates::row)
                .returns(TYPE)
                .uid("rows")
                .assignTimestampsAndWatermarks(
                        WatermarkStrategy.<Row>forBoundedOutOfOrderness(Duration.ofHours(1))
                                .withTimestampAssigner((row, at) -> row.<LocalDateTime>getFieldAs(3).toInstant(ZoneOffset.UTC).toEpochMilli()))
                .uid("times");
    }

    static void streams(DataStream<Row> rows) {
        DataStream<Tuple2<Integer, String>> pairs =
                rows.map(row -> Tuple2.of(row.<Integer>getFieldAs(0), "n" + row.getField(1))).returns(Types.TUPLE(Types.INT, Types.STRING)).uid("pairs");
        rows.keyBy(row -> row.<Integer>getFieldAs(0), Types.INT)
                .intervalJoin(pairs.keyBy(pair -> pair.f0, Types.INT))
                .between(Duration.ofSeconds(-1), Duration.ofSeconds(1))
                .process(new ProcessJoinFunction<Row, Tuple2<Integer, String>, String>() {
                    @Override
                    public void processElement(Row left, Tuple2<Integer, String> right, Context context, Collector<String> out) {}
                })
                .returns(Types.STRING)
                .uid("interval-join")
                .sinkTo(new DiscardingSink<>());
        rows.coGroup(pairs)
                .where(row -> row.<Integer>getFieldAs(0), Types.INT)
                .equalTo(pair -> pair.f0, Types.INT)
                .window(TumblingEventTimeWindows.of(Duration.ofSeconds(5)))
                .apply((Iterable<Row> left, Iterable<Tuple2<Integer, String>> right, Collector<String> out) -> {}, Types.STRING)
                .sinkTo(new DiscardingSink<>());
        AsyncDataStream.unorderedWait(pairs, new Never(), 1, TimeUnit.HOURS, 100).returns(Types.STRING).uid("async").sinkTo(new DiscardingSink<>());
        Pattern<Tuple2<Integer, String>, ?> pattern =
                Pattern.<Tuple2<Integer, String>>begin("one")
                        .where(SimpleCondition.of(pair -> pair.f1.compareTo("n4") < 0))
                        .followedBy("two")
                        .where(SimpleCondition.of(pair -> pair.f1.equals("never")))
                        .within(Duration.ofDays(1));
        CEP.pattern(pairs.keyBy(pair -> pair.f0, Types.INT), pattern)
                .inProcessingTime()
                .process(new PatternProcessFunction<Tuple2<Integer, String>, String>() {
                    @Override
                    public void processMatch(Map<String, List<Tuple2<Integer, String>>> match, Context context, Collector<String> out) {}
                })
                .returns(Types.STRING)
                .uid("cep")
                .sinkTo(new DiscardingSink<>());
    }

    /** Never answers. */
    public static class Never implements AsyncFunction<Tuple2<Integer, String>, String> {
        @Override
        public void asyncInvoke(Tuple2<Integer, String> input, ResultFuture<String> result) {
            new CompletableFuture<String>();
        }
    }

    static void sql(StreamExecutionEnvironment env, DataStream<Row> rows) {
        StreamTableEnvironment tables = StreamTableEnvironment.create(env);
        tables.getConfig().setLocalTimeZone(ZoneOffset.UTC);
        tables.createTemporaryView(
                "t",
                rows,
                Schema.newBuilder()
                        .column("k", "INT").column("n", "BIGINT").column("name", "STRING").column("ts", "TIMESTAMP(9)").column("places", "ARRAY<INT>")
                        .column("counts", "MAP<STRING, BIGINT>").column("inner", "ROW<a STRING, b DOUBLE>")
                        .columnByExpression("rt", "CAST(ts AS TIMESTAMP(3))")
                        .watermark("rt", "rt - INTERVAL '1' HOUR")
                        .build());
        for (String query : QUERIES) {
            tables.toChangelogStream(tables.sqlQuery(query)).sinkTo(new DiscardingSink<>());
        }
    }

    static final String RANKED = "SELECT * FROM (SELECT k, n, name, places, counts, `inner`, ROW_NUMBER() OVER (PARTITION BY k ORDER BY %s) AS place FROM t) WHERE place %s";
    static final List<String> QUERIES =
            List.of(
                    "SELECT a.k, a.name, b.places FROM t AS a JOIN t AS b ON a.k = b.k",
                    "SELECT a.k, a.name, b.places, b.`inner` FROM t AS a LEFT JOIN (SELECT * FROM t WHERE n > 5) AS b ON a.n = b.n",
                    String.format(RANKED, "n DESC", "<= 2"),
                    String.format(RANKED, "rt DESC", "= 1"),
                    "SELECT k, n, SUM(n) OVER (PARTITION BY k ORDER BY rt ROWS BETWEEN 2 PRECEDING AND CURRENT ROW) FROM t",
                    "SELECT k, window_start, COUNT(DISTINCT name), MAX(n) FROM TUMBLE(TABLE t, DESCRIPTOR(rt), INTERVAL '5' SECOND) GROUP BY k, window_start, window_end",
                    "SELECT k, window_start, COUNT(*) FROM SESSION(TABLE t PARTITION BY k, DESCRIPTOR(rt), INTERVAL '1' SECOND) GROUP BY k, window_start, window_end",
                    "SELECT k, ARRAY_AGG(name), COLLECT(name), LAST_VALUE(name), LISTAGG(name), LISTAGG(DISTINCT name), FIRST_VALUE(n), STDDEV_POP(n), MIN(ts) FROM t GROUP BY k",
                    "SELECT a.k, a.name, b.places FROM t AS a, t AS b WHERE a.k = b.k AND a.rt BETWEEN b.rt - INTERVAL '1' SECOND AND b.rt",
                    "SELECT n, name, places FROM t ORDER BY rt, n",
                    "SELECT * FROM t MATCH_RECOGNIZE (PARTITION BY k ORDER BY rt MEASURES A.n AS first_n ONE ROW PER MATCH PATTERN (A B) DEFINE B AS B.n < 0) AS m");

    public static void main(String[] arguments) throws Exception {
        Path folder = Path.of(arguments[0]);
        run(folder, "operators-heap", "hashmap", SavepointFormatType.NATIVE);
        run(folder, "operators-rocksdb", "rocksdb", SavepointFormatType.CANONICAL);
        System.exit(0);
    }

    static void run(Path folder, String name, String backend, SavepointFormatType format) throws Exception {
        SEEN.set(0);
        Configuration settings = new Configuration();
        settings.setString("parallelism.default", "1");
        settings.setString("pipeline.max-parallelism", "16");
        settings.setString("state.backend.type", backend);
        settings.setString("taskmanager.memory.network.min", "64mb");
        settings.setString("taskmanager.memory.network.max", "64mb");
        settings.setString("restart-strategy.type", "none");
        settings.setString("execution.checkpointing.storage", "filesystem");
        settings.setString("execution.checkpointing.dir", "file://" + folder.resolve("checkpoints"));
        StreamExecutionEnvironment env = StreamExecutionEnvironment.createLocalEnvironment(settings);
        DataStream<Row> rows = rows(env);
        streams(rows);
        sql(env, rows);
        JobClient client = env.executeAsync("operator states");
        while (SEEN.get() < 200) {
            if (client.getJobStatus().get().isGloballyTerminalState()) {
                client.getJobExecutionResult().get();
            }
            Thread.sleep(20);
        }
        String path = client.triggerSavepoint("file://" + folder.resolve("savepoints"), format).get();
        client.cancel().get();
        Files.move(Path.of(path.substring("file:".length())), folder.resolve(name));
        System.out.println(name);
    }
}
