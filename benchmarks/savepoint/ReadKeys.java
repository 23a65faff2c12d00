import java.nio.file.Path;
import java.util.Iterator;
import java.util.stream.Stream;
import org.apache.flink.api.common.JobID;
import org.apache.flink.api.common.eventtime.WatermarkStrategy;
import org.apache.flink.api.common.functions.OpenContext;
import org.apache.flink.api.common.state.ValueState;
import org.apache.flink.api.common.state.ValueStateDescriptor;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.api.connector.source.util.ratelimit.RateLimiterStrategy;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.connector.datagen.source.DataGeneratorSource;
import org.apache.flink.connector.datagen.source.GeneratorFunction;
import org.apache.flink.core.execution.SavepointFormatType;
import org.apache.flink.runtime.jobgraph.JobGraph;
import org.apache.flink.runtime.jobgraph.SavepointRestoreSettings;
import org.apache.flink.runtime.minicluster.MiniCluster;
import org.apache.flink.runtime.minicluster.MiniClusterConfiguration;
import org.apache.flink.runtime.state.VoidNamespace;
import org.apache.flink.runtime.state.VoidNamespaceSerializer;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.streaming.api.functions.KeyedProcessFunction;
import org.apache.flink.streaming.api.functions.sink.v2.DiscardingSink;
import org.apache.flink.streaming.api.operators.AbstractStreamOperator;
import org.apache.flink.streaming.api.operators.OneInputStreamOperator;
import org.apache.flink.streaming.runtime.streamrecord.StreamRecord;
import org.apache.flink.util.Collector;

/**
 * Writes a canonical savepoint with a Long for each of many Long keys, and reads all of it in a job of Flink, as the
 * State Processor API does: the state is restored to a keyed backend, then the backend's keys are walked and the value
 * of each is read. Arguments: the number of keys, a directory, how often it is read. Prints the savepoint's path, then a
 * line for each time: milliseconds of the job, and the sum of the values.
 */
public class ReadKeys {
    static volatile long rows, sum, seen;

    static class Write extends KeyedProcessFunction<Long, Long, Long> {
        transient ValueState<Long> state;
        @Override public void open(OpenContext context) { state = getRuntimeContext().getState(new ValueStateDescriptor<>("total", Types.LONG)); }
        @Override public void processElement(Long row, Context context, Collector<Long> out) throws Exception {
            state.update(row * 3);
            rows++;
        }
    }

    static class Read extends AbstractStreamOperator<Long> implements OneInputStreamOperator<Long, Long> {
        @Override public void open() throws Exception {
            super.open();
            ValueStateDescriptor<Long> descriptor = new ValueStateDescriptor<>("total", Types.LONG);
            ValueState<Long> state = getPartitionedState(VoidNamespace.INSTANCE, VoidNamespaceSerializer.INSTANCE, descriptor);
            long found = 0, total = 0;
            try (Stream<Object> keys = getKeyedStateBackend().getKeys("total", VoidNamespace.INSTANCE)) {
                for (Iterator<Object> each = keys.iterator(); each.hasNext(); ) {
                    setCurrentKey(each.next());
                    total += state.value();
                    found++;
                }
            }
            sum = total;
            seen = found;
        }
        @Override public void processElement(StreamRecord<Long> row) { }
    }

    static JobGraph job(long keys, boolean read, String restore, String directory) {
        Configuration configuration = new Configuration();
        configuration.setString("execution.checkpointing.dir", Path.of(directory).toUri().toString());
        StreamExecutionEnvironment env = StreamExecutionEnvironment.getExecutionEnvironment(configuration);
        env.setParallelism(1);
        env.setMaxParallelism(128);
        GeneratorFunction<Long, Long> numbers = n -> n;
        var rows = env.fromSource(new DataGeneratorSource<>(numbers, read ? 1 : Long.MAX_VALUE, RateLimiterStrategy.perSecond(1e7), Types.LONG),
            WatermarkStrategy.noWatermarks(), "numbers").uid(read ? "none" : "numbers").keyBy(n -> n % keys);
        (read ? rows.transform("read", Types.LONG, new Read()) : rows.process(new Write()).returns(Types.LONG)).uid("totals").sinkTo(new DiscardingSink<>());
        JobGraph graph = env.getStreamGraph().getJobGraph(ReadKeys.class.getClassLoader(), JobID.generate());
        if (restore != null) graph.setSavepointRestoreSettings(SavepointRestoreSettings.forPath(restore, true));
        return graph;
    }

    public static void main(String[] args) throws Exception {
        long keys = Long.parseLong(args[0]);
        Configuration configuration = new Configuration();
        configuration.setString("rest.port", "0");
        try (MiniCluster cluster = new MiniCluster(new MiniClusterConfiguration.Builder().setConfiguration(configuration).setNumSlotsPerTaskManager(4).build())) {
            cluster.start();
            JobGraph write = job(keys, false, null, args[1]);
            cluster.submitJob(write).get();
            while (rows < keys + 1000) Thread.sleep(20);
            String path = cluster.triggerSavepoint(write.getJobID(), Path.of(args[1]).toUri().toString(), true, SavepointFormatType.CANONICAL).get();
            cluster.requestJobResult(write.getJobID()).get();
            System.out.println(path);
            for (int i = 0; i < Integer.parseInt(args[2]); i++) {
                long start = System.nanoTime();
                JobGraph read = job(keys, true, path, args[1]);
                cluster.submitJob(read).get();
                cluster.requestJobResult(read.getJobID()).get().toJobExecutionResult(ReadKeys.class.getClassLoader());
                System.out.println((System.nanoTime() - start) / 1_000_000 + " " + seen + " " + sum);
            }
        }
        System.exit(0);
    }
}
