import org.apache.flink.api.common.eventtime.WatermarkStrategy;
import org.apache.flink.api.common.state.ValueState;
import org.apache.flink.api.common.state.ValueStateDescriptor;
import org.apache.flink.api.common.functions.OpenContext;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.api.connector.source.util.ratelimit.RateLimiterStrategy;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.connector.datagen.source.DataGeneratorSource;
import org.apache.flink.connector.datagen.source.GeneratorFunction;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.streaming.api.functions.KeyedProcessFunction;
import org.apache.flink.streaming.api.functions.sink.v2.DiscardingSink;
import org.apache.flink.util.Collector;

/**
 * The job behind `tests/data/flink_rest`: a keyed operator that needs some microseconds a row, with some bytes of state
 * for each key. It runs in this process with a REST API, which `kit.advice.save_flink("http://localhost:18081", file)`
 * saves: arguments are microseconds, bytes, keys, "even", the directory for checkpoints, and settings.
 *
 * backpressured: 1000 0 100 even DIR execution.checkpointing.interval=4s
 * expired:       the same with execution.checkpointing.timeout=4s, interval 3s and tolerable-failed-checkpoints=100
 * large:         0 4000 60000 even DIR execution.checkpointing.interval=3s
 * unaligned:     as the first, with execution.checkpointing.unaligned.enabled=true
 */
public class SlowJob {
    public static class Count extends KeyedProcessFunction<Long, Long, Long> {
        private final long pauseMicros;
        private final int stateBytes;
        private transient ValueState<byte[]> state;
        Count(long pauseMicros, int stateBytes) { this.pauseMicros = pauseMicros; this.stateBytes = stateBytes; }
        @Override public void open(OpenContext context) {
            state = getRuntimeContext().getState(new ValueStateDescriptor<>("bytes", byte[].class));
        }
        @Override public void processElement(Long row, Context context, Collector<Long> out) throws Exception {
            if (pauseMicros > 0) java.util.concurrent.locks.LockSupport.parkNanos(pauseMicros * 1000);
            if (stateBytes > 0 && state.value() == null) state.update(new byte[stateBytes]);
            out.collect(row);
        }
    }
    public static void main(String[] args) throws Exception {
        long pause = Long.parseLong(args[0]);
        int bytes = Integer.parseInt(args[1]);
        long keys = Long.parseLong(args[2]);
        boolean skewed = args[3].equals("skewed");
        Configuration settings = new Configuration();
        settings.setString("rest.port", "18081");
        settings.setString("rest.bind-address", "localhost");
        settings.setString("parallelism.default", "2");
        settings.setString("taskmanager.memory.network.min", "16mb");
        settings.setString("taskmanager.memory.network.max", "16mb");
        settings.setString("execution.checkpointing.dir", args[4]);
        for (int i = 5; i < args.length; i++) {
            String[] pair = args[i].split("=", 2);
            settings.setString(pair[0], pair[1]);
        }
        StreamExecutionEnvironment env = StreamExecutionEnvironment.createLocalEnvironment(settings);
        GeneratorFunction<Long, Long> numbers = n -> n;
        DataGeneratorSource<Long> source = new DataGeneratorSource<>(numbers, Long.MAX_VALUE, RateLimiterStrategy.perSecond(20_000), Types.LONG);
        env.fromSource(source, WatermarkStrategy.noWatermarks(), "numbers").uid("numbers")
            .keyBy(n -> skewed ? (n % 10 == 0 ? n % keys : n % keys % 3) : n % keys)
            .process(new Count(pause, bytes)).returns(Types.LONG).name("count").uid("count")
            .sinkTo(new DiscardingSink<>()).name("sink").uid("sink");
        env.execute("slow");
    }
}
