import java.lang.management.ManagementFactory;
import java.lang.management.ThreadMXBean;
import java.lang.reflect.InvocationHandler;
import java.lang.reflect.Proxy;
import java.net.InetAddress;
import java.nio.file.Paths;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.Executors;
import java.util.concurrent.ScheduledExecutorService;
import java.util.concurrent.ScheduledFuture;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.core.fs.Path;
import org.apache.flink.runtime.OperatorIDPair;
import org.apache.flink.runtime.blob.BlobWriter;
import org.apache.flink.runtime.checkpoint.CheckpointCoordinator;
import org.apache.flink.runtime.checkpoint.CheckpointFailureManager;
import org.apache.flink.runtime.checkpoint.CheckpointMetrics;
import org.apache.flink.runtime.checkpoint.CheckpointPlanCalculatorContext;
import org.apache.flink.runtime.checkpoint.CheckpointStatsTracker;
import org.apache.flink.runtime.checkpoint.CheckpointsCleaner;
import org.apache.flink.runtime.checkpoint.CompletedCheckpoint;
import org.apache.flink.runtime.checkpoint.DefaultCheckpointPlanCalculator;
import org.apache.flink.runtime.checkpoint.DefaultCheckpointStatsTracker;
import org.apache.flink.runtime.checkpoint.OperatorSubtaskState;
import org.apache.flink.runtime.checkpoint.StandaloneCheckpointIDCounter;
import org.apache.flink.runtime.checkpoint.StandaloneCompletedCheckpointStore;
import org.apache.flink.runtime.checkpoint.TaskStateSnapshot;
import org.apache.flink.runtime.clusterframework.types.AllocationID;
import org.apache.flink.runtime.clusterframework.types.ResourceID;
import org.apache.flink.runtime.concurrent.ComponentMainThreadExecutor;
import org.apache.flink.runtime.deployment.TaskDeploymentDescriptorFactory;
import org.apache.flink.runtime.execution.ExecutionState;
import org.apache.flink.runtime.executiongraph.DefaultExecutionGraph;
import org.apache.flink.runtime.executiongraph.DefaultExecutionGraphBuilder;
import org.apache.flink.runtime.executiongraph.DefaultVertexAttemptNumberStore;
import org.apache.flink.runtime.executiongraph.ExecutionDeploymentListener;
import org.apache.flink.runtime.executiongraph.ExecutionJobVertex;
import org.apache.flink.runtime.executiongraph.ExecutionVertex;
import org.apache.flink.runtime.io.network.partition.JobMasterPartitionTracker;
import org.apache.flink.runtime.jobgraph.JobGraph;
import org.apache.flink.runtime.jobgraph.JobGraphBuilder;
import org.apache.flink.runtime.jobgraph.JobVertex;
import org.apache.flink.runtime.jobgraph.OperatorID;
import org.apache.flink.runtime.jobgraph.tasks.AbstractInvokable;
import org.apache.flink.runtime.jobgraph.tasks.CheckpointCoordinatorConfiguration;
import org.apache.flink.runtime.jobmanager.slots.TaskManagerGateway;
import org.apache.flink.runtime.jobmaster.LogicalSlot;
import org.apache.flink.runtime.messages.Acknowledge;
import org.apache.flink.runtime.messages.checkpoint.AcknowledgeCheckpoint;
import org.apache.flink.runtime.metrics.groups.JobManagerJobMetricGroup;
import org.apache.flink.runtime.metrics.groups.UnregisteredMetricGroups;
import org.apache.flink.runtime.scheduler.SchedulerBase;
import org.apache.flink.runtime.scheduler.adaptivebatch.NonAdaptiveExecutionPlanSchedulingContext;
import org.apache.flink.runtime.shuffle.ShuffleMaster;
import org.apache.flink.runtime.state.KeyGroupRange;
import org.apache.flink.runtime.state.KeyGroupRangeAssignment;
import org.apache.flink.runtime.state.KeyGroupRangeOffsets;
import org.apache.flink.runtime.state.KeyGroupsStateHandle;
import org.apache.flink.runtime.state.OperatorStateHandle;
import org.apache.flink.runtime.state.OperatorStreamStateHandle;
import org.apache.flink.runtime.state.filesystem.FileStateHandle;
import org.apache.flink.runtime.state.storage.FileSystemCheckpointStorage;
import org.apache.flink.runtime.taskmanager.TaskManagerLocation;
import org.apache.flink.util.concurrent.ScheduledExecutor;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * How long Flink's own CheckpointCoordinator takes for the checkpoint of coordinator.py: from its trigger, through an ack
 * of each subtask, to the _metadata on the disk and the entry in the store.
 *
 * <p>The first argument is a directory for the checkpoints, each other "row,subtasks,times", where row is "keyed" or
 * "both" (operator state beside keyed state). One line for each of these: of each measurement the milliseconds, and those
 * on the processor, the first one cold. One thread does it all; the tasks are stand-ins that take every message and say
 * nothing.
 */
public final class CoordinateCheckpoint {
    private static final Logger LOG = LoggerFactory.getLogger(CoordinateCheckpoint.class);
    private static final int MAX_PARALLELISM = 32768;
    private static final long[] ENTRIES = {0, 100, 200, 300, 400, 500, 600, 700, 800, 900};
    private static final OperatorID OPERATOR = new OperatorID(0xaaaaaaaaaaaaaaaaL, 0xaaaaaaaaaaaaaaaaL);

    public static void main(String[] arguments) throws Exception {
        String directory = Paths.get(arguments[0]).toUri().toString();
        for (int i = 1; i < arguments.length; i++) {
            String[] job = arguments[i].split(",");
            measure(job[0].equals("both"), Integer.parseInt(job[1]), Integer.parseInt(job[2]), directory);
        }
        System.exit(0);
    }

    private static void measure(boolean both, int subtasks, int times, String directory) throws Exception {
        DefaultExecutionGraph graph = runningGraph(subtasks);
        CheckpointCoordinator coordinator = coordinator(graph, times, directory);
        ThreadMXBean threads = ManagementFactory.getThreadMXBean();
        StringBuilder taken = new StringBuilder();
        for (int checkpoint = 1; checkpoint <= times; checkpoint++) {
            List<AcknowledgeCheckpoint> acks = acks(graph, both, checkpoint);
            System.gc();
            long start = System.nanoTime();
            long startOnCpu = threads.getCurrentThreadCpuTime();
            CompletableFuture<CompletedCheckpoint> completed = coordinator.triggerCheckpoint(false);
            for (AcknowledgeCheckpoint ack : acks) {
                coordinator.receiveAcknowledgeMessage(ack, "here");
            }
            double onCpu = (threads.getCurrentThreadCpuTime() - startOnCpu) / 1e6;
            taken.append((System.nanoTime() - start) / 1e6).append(' ').append(onCpu).append(' ');
            if (!completed.isDone() || completed.get().getCheckpointID() != checkpoint) {
                throw new IllegalStateException("checkpoint " + checkpoint + " did not complete");
            }
        }
        System.out.println(taken);
    }

    private static CheckpointCoordinator coordinator(DefaultExecutionGraph graph, int times, String directory)
            throws Exception {
        JobManagerJobMetricGroup metrics = UnregisteredMetricGroups.createUnregisteredJobManagerJobMetricGroup();
        CheckpointPlanCalculatorContext context =
                new CheckpointPlanCalculatorContext() {
                    @Override
                    public ScheduledExecutor getMainExecutor() {
                        return direct(ScheduledExecutor.class);
                    }

                    @Override
                    public boolean hasFinishedTasks() {
                        return false;
                    }
                };
        return new CheckpointCoordinator(
                graph.getJobID(),
                CheckpointCoordinatorConfiguration.builder().setCheckpointTimeout(600_000).build(),
                List.of(),
                new StandaloneCheckpointIDCounter(),
                new StandaloneCompletedCheckpointStore(times + 1), // or the files of older ones would be deleted
                new FileSystemCheckpointStorage(directory),
                Runnable::run,
                new CheckpointsCleaner(),
                direct(ScheduledExecutor.class),
                new CheckpointFailureManager(0, idle(CheckpointFailureManager.FailJobCallback.class)),
                new DefaultCheckpointPlanCalculator(graph.getJobID(), context, graph.getVerticesTopologically(), true),
                new DefaultCheckpointStatsTracker(10, metrics));
    }

    private static List<AcknowledgeCheckpoint> acks(DefaultExecutionGraph graph, boolean both, long checkpoint) {
        List<AcknowledgeCheckpoint> acks = new ArrayList<>();
        ExecutionJobVertex vertex = graph.getVerticesTopologically().iterator().next();
        for (ExecutionVertex task : vertex.getTaskVertices()) {
            TaskStateSnapshot snapshot = new TaskStateSnapshot();
            snapshot.putSubtaskStateByOperatorID(
                    OPERATOR, state(both, vertex.getParallelism(), task.getParallelSubtaskIndex(), checkpoint));
            acks.add(
                    new AcknowledgeCheckpoint(
                            graph.getJobID(),
                            task.getCurrentExecutionAttempt().getAttemptId(),
                            checkpoint,
                            new CheckpointMetrics(),
                            snapshot));
        }
        return acks;
    }

    private static OperatorSubtaskState state(boolean both, int subtasks, int subtask, long checkpoint) {
        KeyGroupRange range =
                KeyGroupRangeAssignment.computeKeyGroupRangeForOperatorIndex(MAX_PARALLELISM, subtasks, subtask);
        long[] offsets = new long[range.getNumberOfKeyGroups()];
        for (int i = 0; i < offsets.length; i++) {
            offsets[i] = 10L * i;
        }
        OperatorSubtaskState.Builder state =
                OperatorSubtaskState.builder()
                        .setManagedKeyedState(
                                new KeyGroupsStateHandle(
                                        new KeyGroupRangeOffsets(range, offsets),
                                        file("chk-" + checkpoint + "/keyed-" + subtask)));
        if (both) {
            Map<String, OperatorStateHandle.StateMetaInfo> lists = new HashMap<>();
            for (int i = 0; i < 5; i++) {
                lists.put(
                        "list-" + i,
                        new OperatorStateHandle.StateMetaInfo(
                                ENTRIES.clone(), OperatorStateHandle.Mode.SPLIT_DISTRIBUTE));
            }
            state.setManagedOperatorState(
                    new OperatorStreamStateHandle(lists, file("chk-" + checkpoint + "/lists-" + subtask)));
        }
        return state.build();
    }

    private static FileStateHandle file(String name) {
        return new FileStateHandle(new Path(name), 1000);
    }

    private static DefaultExecutionGraph runningGraph(int subtasks) throws Exception {
        JobVertex vertex = new JobVertex("keyed", null, List.of(OperatorIDPair.generatedIDOnly(OPERATOR)));
        vertex.setInvokableClass(AbstractInvokable.class);
        vertex.setParallelism(subtasks);
        vertex.setMaxParallelism(MAX_PARALLELISM);
        DefaultExecutionGraph graph = graph(vertex);
        graph.start(direct(ComponentMainThreadExecutor.class));
        TaskManagerGateway gateway =
                proxy(
                        TaskManagerGateway.class,
                        (proxy, method, values) ->
                                method.getReturnType() == CompletableFuture.class
                                        ? CompletableFuture.completedFuture(Acknowledge.get())
                                        : nothing(method.getReturnType()));
        AllocationID allocation = new AllocationID();
        TaskManagerLocation location =
                new TaskManagerLocation(ResourceID.generate(), InetAddress.getLoopbackAddress(), 1);
        for (ExecutionVertex task : graph.getAllExecutionVertices()) {
            LogicalSlot slot =
                    proxy(
                            LogicalSlot.class,
                            (proxy, method, values) ->
                                    switch (method.getName()) {
                                        case "getTaskManagerGateway" -> gateway;
                                        case "getTaskManagerLocation" -> location;
                                        case "getAllocationId" -> allocation;
                                        default -> method.getReturnType() == boolean.class ? (Object) true : null;
                                    });
            task.getCurrentExecutionAttempt().tryAssignResource(slot);
            task.getCurrentExecutionAttempt().transitionState(ExecutionState.RUNNING);
        }
        return graph;
    }

    private static DefaultExecutionGraph graph(JobVertex vertex) throws Exception {
        JobGraph job = JobGraphBuilder.newStreamingJobGraphBuilder().addJobVertices(List.of(vertex)).build();
        ScheduledExecutorService executor = Executors.newSingleThreadScheduledExecutor();
        return DefaultExecutionGraphBuilder.buildGraph(
                job,
                new Configuration(),
                executor,
                executor,
                CoordinateCheckpoint.class.getClassLoader(),
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
                UnregisteredMetricGroups.createUnregisteredJobManagerJobMetricGroup(),
                NonAdaptiveExecutionPlanSchedulingContext.INSTANCE);
    }

    /** An executor that does at once what it is given, and never what is to be done later. */
    private static <T> T direct(Class<T> type) {
        return proxy(
                type,
                (proxy, method, values) -> {
                    if (method.getName().equals("execute")) {
                        ((Runnable) values[0]).run();
                    }
                    return method.getReturnType() == ScheduledFuture.class
                            ? idle(ScheduledFuture.class)
                            : nothing(method.getReturnType());
                });
    }

    /** Something of this interface that is there and is asked for nothing that matters. */
    private static <T> T idle(Class<T> type) {
        return proxy(type, (proxy, method, values) -> nothing(method.getReturnType()));
    }

    private static Object nothing(Class<?> type) {
        if (type == boolean.class) {
            return false;
        }
        return type == int.class ? (Object) Integer.MAX_VALUE : type == long.class ? (Object) 0L : null;
    }

    private static <T> T proxy(Class<T> type, InvocationHandler handler) {
        return type.cast(Proxy.newProxyInstance(type.getClassLoader(), new Class<?>[] {type}, handler));
    }
}
