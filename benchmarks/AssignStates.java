import java.lang.reflect.Proxy;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.concurrent.Executors;
import java.util.concurrent.ScheduledExecutorService;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.core.fs.Path;
import org.apache.flink.runtime.blob.BlobWriter;
import org.apache.flink.runtime.checkpoint.CheckpointStatsTracker;
import org.apache.flink.runtime.checkpoint.CheckpointsCleaner;
import org.apache.flink.runtime.checkpoint.OperatorState;
import org.apache.flink.runtime.checkpoint.OperatorSubtaskState;
import org.apache.flink.runtime.checkpoint.StandaloneCheckpointIDCounter;
import org.apache.flink.runtime.checkpoint.StandaloneCompletedCheckpointStore;
import org.apache.flink.runtime.checkpoint.StateAssignmentOperation;
import org.apache.flink.runtime.checkpoint.StateObjectCollection;
import org.apache.flink.runtime.checkpoint.channel.InputChannelInfo;
import org.apache.flink.runtime.checkpoint.channel.ResultSubpartitionInfo;
import org.apache.flink.runtime.deployment.TaskDeploymentDescriptorFactory;
import org.apache.flink.runtime.executiongraph.DefaultExecutionGraph;
import org.apache.flink.runtime.executiongraph.DefaultExecutionGraphBuilder;
import org.apache.flink.runtime.executiongraph.ExecutionDeploymentListener;
import org.apache.flink.runtime.executiongraph.ExecutionJobVertex;
import org.apache.flink.runtime.executiongraph.ExecutionVertex;
import org.apache.flink.runtime.io.network.api.writer.SubtaskStateMapper;
import org.apache.flink.runtime.io.network.partition.JobMasterPartitionTracker;
import org.apache.flink.runtime.io.network.partition.ResultPartitionType;
import org.apache.flink.runtime.jobgraph.DistributionPattern;
import org.apache.flink.runtime.jobgraph.IntermediateDataSetID;
import org.apache.flink.runtime.jobgraph.JobEdge;
import org.apache.flink.runtime.jobgraph.JobGraph;
import org.apache.flink.runtime.jobgraph.JobGraphBuilder;
import org.apache.flink.runtime.jobgraph.JobVertex;
import org.apache.flink.runtime.jobgraph.OperatorID;
import org.apache.flink.runtime.jobgraph.tasks.AbstractInvokable;
import org.apache.flink.runtime.metrics.groups.JobManagerJobMetricGroup;
import org.apache.flink.runtime.metrics.groups.UnregisteredMetricGroups;
import org.apache.flink.runtime.scheduler.SchedulerBase;
import org.apache.flink.runtime.scheduler.adaptivebatch.NonAdaptiveExecutionPlanSchedulingContext;
import org.apache.flink.runtime.executiongraph.DefaultVertexAttemptNumberStore;
import org.apache.flink.runtime.shuffle.ShuffleMaster;
import org.apache.flink.runtime.state.InputChannelStateHandle;
import org.apache.flink.runtime.state.InputStateHandle;
import org.apache.flink.runtime.state.KeyGroupRange;
import org.apache.flink.runtime.state.KeyGroupRangeAssignment;
import org.apache.flink.runtime.state.KeyGroupRangeOffsets;
import org.apache.flink.runtime.state.KeyGroupsStateHandle;
import org.apache.flink.runtime.state.OperatorStateHandle;
import org.apache.flink.runtime.state.OperatorStreamStateHandle;
import org.apache.flink.runtime.state.OutputStateHandle;
import org.apache.flink.runtime.state.ResultSubpartitionStateHandle;
import org.apache.flink.runtime.state.StreamStateHandle;
import org.apache.flink.runtime.state.filesystem.FileStateHandle;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * How long Flink's own StateAssignmentOperation takes, on the states of assignment.py.
 *
 * <p>Each argument is "row,old,new,times", where row has the letters s (split states), u (union state), c (channels) for
 * what there is beside keyed state. One line for each: the milliseconds of each measurement, the first one cold.
 */
public final class AssignStates {
    private static final Logger LOG = LoggerFactory.getLogger(AssignStates.class);
    private static final int MAX_PARALLELISM = 32768;
    private static final long[] ENTRIES = {0, 100, 200, 300, 400, 500, 600, 700, 800, 900};

    public static void main(String[] arguments) throws Exception {
        for (String argument : arguments) {
            String[] job = argument.split(",");
            measure(job[0], Integer.parseInt(job[1]), Integer.parseInt(job[2]), Integer.parseInt(job[3]));
        }
        System.exit(0);
    }

    private static void measure(String row, int old, int parallelism, int times) throws Exception {
        OperatorID sourceId = new OperatorID(0xaaaaaaaaaaaaaaaaL, 0xaaaaaaaaaaaaaaaaL);
        OperatorID keyedId = new OperatorID(0xbbbbbbbbbbbbbbbbL, 0xbbbbbbbbbbbbbbbbL);
        JobVertex source = vertex("source", sourceId, parallelism);
        JobVertex keyed = vertex("keyed", keyedId, parallelism);
        Map<OperatorID, OperatorState> states = new HashMap<>();
        states.put(keyedId, keyedState(row, keyedId, old));
        List<JobVertex> vertices = new ArrayList<>(List.of(keyed));
        if (row.contains("c")) { // without in-flight data one vertex is enough
            JobEdge edge =
                    keyed.connectNewDataSetAsInput(
                            source,
                            DistributionPattern.ALL_TO_ALL,
                            ResultPartitionType.PIPELINED,
                            new IntermediateDataSetID(),
                            false,
                            false);
            edge.setUpstreamSubtaskStateMapper(SubtaskStateMapper.ARBITRARY);
            edge.setDownstreamSubtaskStateMapper(SubtaskStateMapper.RANGE);
            states.put(sourceId, sourceState(sourceId, old));
            vertices.add(0, source);
        }
        DefaultExecutionGraph graph = graph(vertices);
        HashSet<ExecutionJobVertex> tasks = new HashSet<>(graph.getAllVertices().values());
        StringBuilder taken = new StringBuilder();
        for (int i = 0; i < times; i++) {
            for (ExecutionVertex vertex : graph.getAllExecutionVertices()) {
                vertex.getCurrentExecutionAttempt().setInitialState(null); // or two results would fill the memory
            }
            long start = System.nanoTime();
            new StateAssignmentOperation(1, tasks, states, false, false).assignStates();
            taken.append((System.nanoTime() - start) / 1e6).append(' ');
        }
        System.out.println(taken);
    }

    private static OperatorState keyedState(String row, OperatorID id, int old) {
        OperatorState state = new OperatorState("keyed", "keyed", id, old, MAX_PARALLELISM);
        for (int subtask = 0; subtask < old; subtask++) {
            KeyGroupRange range =
                    KeyGroupRangeAssignment.computeKeyGroupRangeForOperatorIndex(MAX_PARALLELISM, old, subtask);
            long[] offsets = new long[range.getNumberOfKeyGroups()];
            for (int i = 0; i < offsets.length; i++) {
                offsets[i] = i;
            }
            OperatorSubtaskState.Builder builder =
                    OperatorSubtaskState.builder()
                            .setManagedKeyedState(
                                    new KeyGroupsStateHandle(
                                            new KeyGroupRangeOffsets(range, offsets), file("keyed-" + subtask)));
            if (row.contains("s")) {
                Map<String, OperatorStateHandle.StateMetaInfo> names = new HashMap<>();
                for (int i = 0; i < 4; i++) {
                    names.put("split-" + i, meta(OperatorStateHandle.Mode.SPLIT_DISTRIBUTE));
                }
                if (row.contains("u")) {
                    names.put("union", meta(OperatorStateHandle.Mode.UNION));
                }
                builder.setManagedOperatorState(new OperatorStreamStateHandle(names, file("op-" + subtask)));
            }
            if (row.contains("c")) {
                List<InputStateHandle> inputs = new ArrayList<>();
                for (int i = 0; i < 10; i++) {
                    inputs.add(
                            new InputChannelStateHandle(
                                    subtask,
                                    new InputChannelInfo(0, (subtask + i) % old),
                                    file("channels-" + subtask),
                                    List.of(0L),
                                    100));
                }
                builder.setInputChannelState(new StateObjectCollection<>(inputs));
            }
            state.putState(subtask, builder.build());
        }
        return state;
    }

    private static OperatorState sourceState(OperatorID id, int old) {
        OperatorState state = new OperatorState("source", "source", id, old, MAX_PARALLELISM);
        for (int subtask = 0; subtask < old; subtask++) {
            List<OutputStateHandle> outputs = new ArrayList<>();
            for (int i = 0; i < 10; i++) {
                outputs.add(
                        new ResultSubpartitionStateHandle(
                                subtask,
                                new ResultSubpartitionInfo(0, (subtask + i) % old),
                                file("channels-" + subtask),
                                List.of(0L),
                                100));
            }
            OperatorSubtaskState.Builder builder = OperatorSubtaskState.builder();
            builder.setResultSubpartitionState(new StateObjectCollection<>(outputs));
            state.putState(subtask, builder.build());
        }
        return state;
    }

    private static OperatorStateHandle.StateMetaInfo meta(OperatorStateHandle.Mode mode) {
        return new OperatorStateHandle.StateMetaInfo(ENTRIES, mode);
    }

    private static StreamStateHandle file(String name) {
        return new FileStateHandle(new Path(name), 1000);
    }

    private static JobVertex vertex(String name, OperatorID id, int parallelism) {
        JobVertex vertex =
                new JobVertex(
                        name,
                        null,
                        List.of(org.apache.flink.runtime.OperatorIDPair.generatedIDOnly(id)));
        vertex.setInvokableClass(AbstractInvokable.class);
        vertex.setParallelism(parallelism);
        vertex.setMaxParallelism(MAX_PARALLELISM);
        return vertex;
    }

    private static DefaultExecutionGraph graph(List<JobVertex> vertices) throws Exception {
        JobGraph job = JobGraphBuilder.newStreamingJobGraphBuilder().addJobVertices(vertices).build();
        ScheduledExecutorService executor = Executors.newSingleThreadScheduledExecutor();
        JobManagerJobMetricGroup metrics = UnregisteredMetricGroups.createUnregisteredJobManagerJobMetricGroup();
        return DefaultExecutionGraphBuilder.buildGraph(
                job,
                new Configuration(),
                executor,
                executor,
                AssignStates.class.getClassLoader(),
                new StandaloneCompletedCheckpointStore(1),
                new CheckpointsCleaner(),
                new StandaloneCheckpointIDCounter(),
                Duration.ofSeconds(10),
                idle(BlobWriter.class),
                LOG,
                idle(ShuffleMaster.class),
                idle(JobMasterPartitionTracker.class),
                TaskDeploymentDescriptorFactory.PartitionLocationConstraint.fromJobType(job.getJobType()),
                idle(ExecutionDeploymentListener.class),
                (execution, before, after) -> {},
                0L,
                new DefaultVertexAttemptNumberStore(),
                SchedulerBase.computeVertexParallelismStore(job),
                idle(CheckpointStatsTracker.class),
                false,
                new ExecutionJobVertex.Factory(),
                type -> false,
                false,
                metrics,
                NonAdaptiveExecutionPlanSchedulingContext.INSTANCE);
    }

    /** Something of this interface that is there and is asked for nothing that matters. */
    private static <T> T idle(Class<T> type) {
        return type.cast(
                Proxy.newProxyInstance(
                        type.getClassLoader(),
                        new Class<?>[] {type},
                        (proxy, method, arguments) ->
                                method.getReturnType() == int.class ? (Object) Integer.MAX_VALUE : null));
    }
}
