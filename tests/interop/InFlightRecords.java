import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.stream.Stream;
import org.apache.flink.api.common.eventtime.WatermarkStrategy;
import org.apache.flink.api.common.state.ListState;
import org.apache.flink.api.common.state.ListStateDescriptor;
import org.apache.flink.api.common.typeinfo.TypeInformation;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.api.connector.source.util.ratelimit.RateLimiterStrategy;
import org.apache.flink.api.java.tuple.Tuple2;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.connector.datagen.source.DataGeneratorSource;
import org.apache.flink.connector.datagen.source.GeneratorFunction;
import org.apache.flink.core.execution.JobClient;
import org.apache.flink.runtime.state.FunctionInitializationContext;
import org.apache.flink.runtime.state.FunctionSnapshotContext;
import org.apache.flink.streaming.api.checkpoint.CheckpointedFunction;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.streaming.api.functions.ProcessFunction;
import org.apache.flink.streaming.api.functions.sink.v2.DiscardingSink;
import org.apache.flink.util.Collector;

/**
 * An unaligned checkpoint with records in flight that span buffers. Arguments: the folder to write to.
 *
 * <p>Record n is (n, text), where the text has 7919 * n % 9000 characters. Its timestamp is n. The operator `slow` keeps the number of every record
 * that it has processed in the list state `processed`, so those in flight are the ones that the source has emitted besides.
 */
public class InFlightRecords {
    static String text(long n) {
        StringBuilder made = new StringBuilder();
        long size = 7919 * n % 9000;
        for (int place = 0; place < size; place++) {
            made.append(place % 10 == 9 ? '\u20ac' : (char) ('a' + (n + place) % 26));
        }
        return made.toString();
    }

    /** Processes twenty records, then five in a second. */
    public static class Slow extends ProcessFunction<Tuple2<Long, String>, Long> implements CheckpointedFunction {
        private final List<Long> processed = new ArrayList<>();
        private transient ListState<Long> state;

        @Override
        public void processElement(Tuple2<Long, String> record, Context context, Collector<Long> out) throws Exception {
            processed.add(record.f0);
            Thread.sleep(processed.size() < 20 ? 0 : 200);
        }

        @Override
        public void initializeState(FunctionInitializationContext context) throws Exception {
            state = context.getOperatorStateStore().getListState(new ListStateDescriptor<>("processed", Types.LONG));
        }

        @Override
        public void snapshotState(FunctionSnapshotContext context) throws Exception {
            state.update(processed);
        }
    }

    public static void main(String[] arguments) throws Exception {
        Path folder = Path.of(arguments[0]);
        Configuration settings = new Configuration();
        settings.setString("parallelism.default", "2");
        settings.setString("pipeline.max-parallelism", "16");
        settings.setString("taskmanager.numberOfTaskSlots", "2");
        settings.setString("taskmanager.memory.segment-size", "4kb");
        settings.setString("taskmanager.memory.network.min", "16mb");
        settings.setString("taskmanager.memory.network.max", "16mb");
        settings.setString("restart-strategy.type", "none");
        settings.setString("execution.checkpointing.storage", "filesystem");
        settings.setString("execution.checkpointing.dir", "file://" + folder.resolve("checkpoints"));
        settings.setString("execution.checkpointing.interval", "1s");
        settings.setString("execution.checkpointing.unaligned.enabled", "true");
        settings.setString("execution.checkpointing.num-retained", "9");
        settings.setString("execution.checkpointing.externalized-checkpoint-retention", "RETAIN_ON_CANCELLATION");
        StreamExecutionEnvironment env = StreamExecutionEnvironment.createLocalEnvironment(settings);
        TypeInformation<Tuple2<Long, String>> type = Types.TUPLE(Types.LONG, Types.STRING);
        GeneratorFunction<Long, Tuple2<Long, String>> records = n -> Tuple2.of(n, text(n));
        env.fromSource(
                        new DataGeneratorSource<>(records, 2_000L, RateLimiterStrategy.noOp(), type),
                        WatermarkStrategy.<Tuple2<Long, String>>forMonotonousTimestamps().withTimestampAssigner((record, at) -> record.f0),
                        "numbers")
                .uid("numbers")
                .keyBy(record -> record.f0 / 3, Types.LONG)
                .process(new Slow())
                .returns(Types.LONG)
                .uid("slow")
                .sinkTo(new DiscardingSink<>())
                .uid("out");
        JobClient client = env.executeAsync("in flight");
        Path found = null;
        while (found == null) {
            Thread.sleep(50);
            if (client.getJobStatus().get().isGloballyTerminalState()) {
                client.getJobExecutionResult().get();
            }
            found = later(folder.resolve("checkpoints"));
        }
        client.cancel().get();
        Files.move(found, folder.resolve("in-flight"));
        System.exit(0);
    }

    /** A checkpoint that is not the first: watermarks are in flight too. */
    static Path later(Path checkpoints) throws Exception {
        if (!Files.exists(checkpoints)) {
            return null;
        }
        try (Stream<Path> paths = Files.walk(checkpoints)) {
            return paths.filter(path -> path.endsWith("_metadata") && !path.getParent().endsWith("chk-1")).map(Path::getParent).findFirst().orElse(null);
        }
    }
}
