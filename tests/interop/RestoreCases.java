import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.io.Serializable;
import java.lang.reflect.Field;
import java.net.URI;
import java.net.URL;
import java.net.URLClassLoader;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.AtomicLong;
import javax.tools.ToolProvider;
import org.apache.flink.api.common.JobID;
import org.apache.flink.api.common.JobStatus;
import org.apache.flink.api.common.eventtime.WatermarkStrategy;
import org.apache.flink.api.common.functions.AggregateFunction;
import org.apache.flink.api.common.functions.MapFunction;
import org.apache.flink.api.common.functions.OpenContext;
import org.apache.flink.api.common.functions.ReduceFunction;
import org.apache.flink.api.common.functions.RichMapFunction;
import org.apache.flink.api.common.state.*;
import org.apache.flink.api.common.typeinfo.TypeInformation;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.api.connector.source.util.ratelimit.RateLimiterStrategy;
import org.apache.flink.api.java.functions.KeySelector;
import org.apache.flink.api.java.tuple.Tuple;
import org.apache.flink.api.java.tuple.Tuple2;
import org.apache.flink.api.java.tuple.Tuple3;
import org.apache.flink.api.java.typeutils.EitherTypeInfo;
import org.apache.flink.api.java.typeutils.GenericTypeInfo;
import org.apache.flink.api.java.typeutils.TypeExtractor;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.connector.datagen.source.DataGeneratorSource;
import org.apache.flink.connector.datagen.source.GeneratorFunction;
import org.apache.flink.connector.file.sink.FileSink;
import org.apache.flink.api.common.serialization.SimpleStringEncoder;
import org.apache.flink.core.execution.SavepointFormatType;
import org.apache.flink.runtime.execution.ExecutionState;
import org.apache.flink.runtime.executiongraph.AccessExecutionVertex;
import org.apache.flink.runtime.jobgraph.JobGraph;
import org.apache.flink.runtime.jobgraph.SavepointRestoreSettings;
import org.apache.flink.runtime.jobmaster.JobResult;
import org.apache.flink.runtime.minicluster.MiniCluster;
import org.apache.flink.runtime.minicluster.MiniClusterConfiguration;
import org.apache.flink.runtime.state.FunctionInitializationContext;
import org.apache.flink.runtime.state.FunctionSnapshotContext;
import org.apache.flink.streaming.api.checkpoint.CheckpointedFunction;
import org.apache.flink.streaming.api.datastream.DataStream;
import org.apache.flink.streaming.api.datastream.KeyedStream;
import org.apache.flink.streaming.api.datastream.SingleOutputStreamOperator;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.streaming.api.functions.KeyedProcessFunction;
import org.apache.flink.streaming.api.functions.co.BroadcastProcessFunction;
import org.apache.flink.streaming.api.functions.sink.filesystem.rollingpolicies.OnCheckpointRollingPolicy;
import org.apache.flink.streaming.api.functions.sink.v2.DiscardingSink;
import org.apache.flink.streaming.api.windowing.assigners.GlobalWindows;
import org.apache.flink.streaming.api.windowing.assigners.TumblingProcessingTimeWindows;
import org.apache.flink.streaming.api.windowing.triggers.CountTrigger;
import org.apache.flink.types.Either;
import org.apache.flink.types.Row;
import org.apache.flink.util.Collector;
import org.apache.flink.util.ParameterTool;

/**
 * Takes savepoints of jobs and restores other jobs from them, one after another, on one small cluster. The input has a
 * line for each, with tabs between its fields:
 *
 *   save     NAME DIRECTORY JOB           writes a savepoint (or checkpoint, if the job says so) to DIRECTORY/NAME
 *   restore  CASE DIRECTORY JOB allow|-   restores JOB from DIRECTORY
 *
 * and the output a line for each: what came of it. A JOB is a list of parts with " | " between them: its settings, then
 * its operators after the source: `p=2 classes=Order{long id;} | keyed uid=a key=long states=total:value:long`.
 */
public class RestoreCases {
    static final Map<String, AtomicLong> ROWS = new ConcurrentHashMap<>();
    static final Map<String, AtomicLong> FOUND = new ConcurrentHashMap<>();
    static final Map<String, URLClassLoader> CLASSES = new HashMap<>();
    static Path work;

    // --- types and their values --------------------------------------------------------------------------------------

    static List<String> arguments(String token) {
        List<String> found = new ArrayList<>();
        int depth = 0, start = token.indexOf('(') + 1;
        for (int i = start; i < token.length(); i++) {
            char c = token.charAt(i);
            if (c == '(') depth++;
            if ((c == ',' && depth == 0) || (c == ')' && depth == 0)) {
                found.add(token.substring(start, i));
                start = i + 1;
            }
            if (c == ')') depth--;
        }
        return found;
    }

    static TypeInformation<?> type(String token, ClassLoader loader) throws Exception {
        String kind = token.contains("(") ? token.substring(0, token.indexOf('(')) : token;
        List<String> of = token.contains("(") ? arguments(token) : List.of();
        switch (kind) {
            case "long": return Types.LONG;
            case "int": return Types.INT;
            case "double": return Types.DOUBLE;
            case "string": return Types.STRING;
            case "boolean": return Types.BOOLEAN;
            case "instant": return Types.INSTANT;
            case "ints": return Types.PRIMITIVE_ARRAY(Types.INT);
            case "tuple": {
                TypeInformation<?>[] parts = new TypeInformation<?>[of.size()];
                for (int i = 0; i < parts.length; i++) parts[i] = type(of.get(i), loader);
                return Types.TUPLE(parts);
            }
            case "row": {
                TypeInformation<?>[] parts = new TypeInformation<?>[of.size()];
                for (int i = 0; i < parts.length; i++) parts[i] = type(of.get(i), loader);
                return Types.ROW(parts);
            }
            case "either": return new EitherTypeInfo<>(type(of.get(0), loader), type(of.get(1), loader));
            case "list": return Types.LIST(type(of.get(0), loader));
            case "map": return Types.MAP(type(of.get(0), loader), type(of.get(1), loader));
            case "pojo": return TypeExtractor.createTypeInfo(Class.forName(of.get(0), true, loader));
            case "kryo": return new GenericTypeInfo<>(Class.forName(of.get(0), true, loader));
            default: throw new IllegalArgumentException("no type " + token);
        }
    }

    static Object value(String token, long n, ClassLoader loader) throws Exception {
        String kind = token.contains("(") ? token.substring(0, token.indexOf('(')) : token;
        List<String> of = token.contains("(") ? arguments(token) : List.of();
        switch (kind) {
            case "long": return n;
            case "int": return (int) n;
            case "double": return (double) n;
            case "string": return "s" + n;
            case "boolean": return n % 2 == 0;
            case "instant": return java.time.Instant.ofEpochMilli(n);
            case "ints": return new int[] {(int) n};
            case "tuple": {
                Tuple made = Tuple.newInstance(of.size());
                for (int i = 0; i < of.size(); i++) made.setField(value(of.get(i), n, loader), i);
                return made;
            }
            case "row": {
                Row made = new Row(of.size());
                for (int i = 0; i < of.size(); i++) made.setField(i, value(of.get(i), n, loader));
                return made;
            }
            case "either": return n % 2 == 0 ? Either.Left(value(of.get(0), n, loader)) : Either.Right(value(of.get(1), n, loader));
            case "list": return new ArrayList<>(List.of(value(of.get(0), n, loader)));
            case "map": return new HashMap<>(Map.of(value(of.get(0), n, loader), value(of.get(1), n, loader)));
            default: return object(Class.forName(of.get(0), true, loader), n);
        }
    }

    static Object object(Class<?> type, long n) throws Exception {
        if (type == long.class || type == Long.class) return n;
        if (type == int.class || type == Integer.class) return (int) n;
        if (type == double.class || type == Double.class) return (double) n;
        if (type == boolean.class || type == Boolean.class) return n % 2 == 0;
        if (type == String.class) return "s" + n;
        if (type.isEnum()) return type.getEnumConstants()[(int) (n % type.getEnumConstants().length)];
        if (type.isAssignableFrom(ArrayList.class)) return new ArrayList<>();
        Object made = type.getConstructor().newInstance();
        for (Field field : type.getFields()) field.set(made, object(field.getType(), n));
        return made;
    }

    // --- operators ---------------------------------------------------------------------------------------------------

    /** A keyed function with the states that `states=name:kind:type;...` lists. */
    static class Keyed extends KeyedProcessFunction<Object, Long, Long> {
        final String run, states; final boolean timers; final long pauseMicros;
        transient List<State> made; transient List<String[]> told; transient ClassLoader loader;
        Keyed(String run, String states, boolean timers, long pauseMicros) {
            this.run = run; this.states = states; this.timers = timers; this.pauseMicros = pauseMicros;
        }
        @Override public void open(OpenContext context) throws Exception {
            loader = getRuntimeContext().getUserCodeClassLoader();
            made = new ArrayList<>(); told = new ArrayList<>();
            for (String each : states.isEmpty() ? new String[0] : states.split(";")) {
                String[] parts = each.split(":");
                told.add(parts);
                made.add(state(parts));
            }
        }
        @SuppressWarnings({"unchecked", "rawtypes"})
        State state(String[] parts) throws Exception {
            TypeInformation type = type(parts[2], loader);
            StateDescriptor descriptor;
            switch (parts[1]) {
                case "value": descriptor = new ValueStateDescriptor(parts[0], type); break;
                case "list": descriptor = new ListStateDescriptor(parts[0], type); break;
                case "map": descriptor = new MapStateDescriptor(parts[0], Types.STRING, type); break;
                case "reducing": descriptor = new ReducingStateDescriptor(parts[0], (ReduceFunction & Serializable) (a, b) -> b, type); break;
                default: throw new IllegalArgumentException(parts[1]);
            }
            if (parts.length > 3 && parts[3].equals("ttl")) descriptor.enableTimeToLive(StateTtlConfig.newBuilder(Duration.ofDays(9)).build());
            switch (parts[1]) {
                case "value": return getRuntimeContext().getState((ValueStateDescriptor) descriptor);
                case "list": return getRuntimeContext().getListState((ListStateDescriptor) descriptor);
                case "map": return getRuntimeContext().getMapState((MapStateDescriptor) descriptor);
                default: return getRuntimeContext().getReducingState((ReducingStateDescriptor) descriptor);
            }
        }
        @SuppressWarnings({"unchecked", "rawtypes"})
        @Override public void processElement(Long row, Context context, Collector<Long> out) throws Exception {
            if (pauseMicros > 0) java.util.concurrent.locks.LockSupport.parkNanos(pauseMicros * 1000);
            for (int i = 0; i < made.size(); i++) {
                String[] parts = told.get(i);
                Object value = value(parts[2], row, loader);
                boolean found = false;
                switch (parts[1]) {
                    case "value": { ValueState s = (ValueState) made.get(i); found = s.value() != null; if (!found) s.update(value); break; }
                    case "list": { ListState s = (ListState) made.get(i); found = s.get() != null && ((Iterable<?>) s.get()).iterator().hasNext(); if (!found) s.add(value); break; }
                    case "map": { MapState s = (MapState) made.get(i); found = s.get("k") != null; if (!found) s.put("k", value); break; }
                    default: { ReducingState s = (ReducingState) made.get(i); found = s.get() != null; if (!found) s.add(value); }
                }
                if (found) FOUND.get(run).incrementAndGet();
            }
            if (timers) {
                context.timerService().registerProcessingTimeTimer(4102444800000L + row % 5);
                context.timerService().registerEventTimeTimer(4102444800000L + row % 3);
            }
            ROWS.get(run).incrementAndGet();
            out.collect(row);
        }
    }

    /** A function with operator list states: `states=name:split|union:type;...`. */
    static class Listed extends RichMapFunction<Long, Long> implements CheckpointedFunction {
        final String run, states;
        transient List<ListState<Object>> made; transient List<String[]> told;
        Listed(String run, String states) { this.run = run; this.states = states; }
        @Override public Long map(Long row) { ROWS.get(run).incrementAndGet(); return row; }
        @SuppressWarnings({"unchecked", "rawtypes"})
        @Override public void initializeState(FunctionInitializationContext context) throws Exception {
            made = new ArrayList<>(); told = new ArrayList<>();
            for (String each : states.split(";")) {
                String[] parts = each.split(":");
                ListStateDescriptor descriptor = new ListStateDescriptor(parts[0], type(parts[2], getRuntimeContext().getUserCodeClassLoader()));
                ListState state = parts[1].equals("union") ? context.getOperatorStateStore().getUnionListState(descriptor) : context.getOperatorStateStore().getListState(descriptor);
                for (Object held : (Iterable<?>) state.get()) FOUND.get(run).incrementAndGet();
                made.add(state); told.add(parts);
            }
        }
        @Override public void snapshotState(FunctionSnapshotContext context) throws Exception {
            for (int i = 0; i < made.size(); i++) {
                made.get(i).clear();
                for (long n = 0; n < 3; n++) made.get(i).add(value(told.get(i)[2], n, getRuntimeContext().getUserCodeClassLoader()));
            }
        }
    }

    /** A function with a broadcast state from String to `type`. */
    static class Broadcasting extends BroadcastProcessFunction<Long, Long, Long> {
        final String run, name, token, types; 
        Broadcasting(String run, String name, String types, String token) { this.run = run; this.name = name; this.types = types; this.token = token; }
        @SuppressWarnings({"unchecked", "rawtypes"})
        MapStateDescriptor<String, Object> descriptor(ClassLoader loader) throws Exception {
            return new MapStateDescriptor(name, Types.STRING, type(token, loader));
        }
        @Override public void processElement(Long row, ReadOnlyContext context, Collector<Long> out) { ROWS.get(run).incrementAndGet(); out.collect(row); }
        @Override public void processBroadcastElement(Long row, Context context, Collector<Long> out) throws Exception {
            ClassLoader loader = getRuntimeContext().getUserCodeClassLoader();
            BroadcastState<String, Object> state = context.getBroadcastState(descriptor(loader));
            if (state.contains("k" + row % 4)) FOUND.get(run).incrementAndGet();
            state.put("k" + row % 4, value(token, row, loader));
        }
    }

    static class Key implements KeySelector<Long, Object>, Serializable {
        final String token, name; transient URLClassLoader loader;
        Key(String token, String classes) { this.token = token; this.name = classes; }
        @Override public Object getKey(Long row) throws Exception { return value(token, row % 10, CLASSES.get(name)); }
    }

    static class Sum implements AggregateFunction<Long, Long, Long> {
        @Override public Long createAccumulator() { return 0L; }
        @Override public Long add(Long row, Long sum) { return sum + row; }
        @Override public Long getResult(Long sum) { return sum; }
        @Override public Long merge(Long a, Long b) { return a + b; }
    }

    static class Counted implements MapFunction<Long, Long> {
        final String run;
        Counted(String run) { this.run = run; }
        @Override public Long map(Long row) { ROWS.get(run).incrementAndGet(); return row; }
    }

    // --- jobs --------------------------------------------------------------------------------------------------------

    static Map<String, String> options(String text) {
        Map<String, String> found = new HashMap<>();
        for (String each : text.trim().split(" (?![^{]*\\})")) {
            int at = each.indexOf('=');
            if (at < 0) found.put("kind", each); else found.put(each.substring(0, at), each.substring(at + 1));
        }
        return found;
    }

    static final String AS_KEY = " public int hashCode() { return toString().hashCode(); }"
        + " public boolean equals(Object other) { return toString().equals(String.valueOf(other)); }"
        + " public String toString() { String text = \"\"; try { for (java.lang.reflect.Field field : getClass().getFields())"
        + " text += field.get(this) + \" \"; } catch (IllegalAccessException error) { } return text; }";

    static URLClassLoader classes(String sources) throws Exception {
        if (!CLASSES.containsKey(sources)) {
            Path folder = Files.createDirectories(work.resolve("classes-" + CLASSES.size()));
            List<String> files = new ArrayList<>(List.of("-nowarn", "-d", folder.toString()));
            for (String each : sources.isEmpty() ? new String[0] : sources.split("/")) {
                boolean isEnum = each.startsWith("enum:");
                String name = each.substring(isEnum ? 5 : 0, each.indexOf('{'));
                String body = each.substring(each.indexOf('{') + 1, each.lastIndexOf('}'));
                StringBuilder text = new StringBuilder(isEnum ? "public enum " : "public class ").append(name).append(" {");
                if (isEnum) text.append(body);
                else {
                    for (String field : body.split(";")) if (!field.isBlank()) text.append(" public ").append(field.trim()).append(";");
                    text.append(AS_KEY);
                }
                Path file = folder.resolve(name + ".java");
                Files.writeString(file, text.append("}\n"));
                files.add(file.toString());
            }
            if (files.size() > 3 && ToolProvider.getSystemJavaCompiler().run(null, null, null, files.toArray(new String[0])) != 0)
                throw new IllegalArgumentException("does not compile: " + sources);
            CLASSES.put(sources, new URLClassLoader(new URL[] {folder.toUri().toURL()}, RestoreCases.class.getClassLoader()));
        }
        return CLASSES.get(sources);
    }

    @SuppressWarnings({"unchecked", "rawtypes"})
    static JobGraph job(String run, String text, String restore, boolean allow) throws Exception {
        String[] parts = text.split(" \\| ");
        Map<String, String> settings = options(parts[0]);
        String sources = settings.getOrDefault("classes", "");
        URLClassLoader loader = classes(sources);
        Configuration configuration = new Configuration();
        configuration.setString("restart-strategy.type", "disable");
        configuration.setString("execution.checkpointing.dir", work.resolve("checkpoints").toUri().toString());
        configuration.setString("execution.checkpointing.externalized-checkpoint-retention", "RETAIN_ON_CANCELLATION");
        if (settings.containsKey("backend")) configuration.setString("state.backend.type", settings.get("backend"));
        if (settings.containsKey("unaligned")) {
            configuration.setString("execution.checkpointing.unaligned.enabled", "true");
            configuration.setString("execution.checkpointing.interval", "1h");
            configuration.setString("taskmanager.memory.segment-size", "4kb");
        }
        StreamExecutionEnvironment env = StreamExecutionEnvironment.getExecutionEnvironment(configuration);
        env.setParallelism(Integer.parseInt(settings.getOrDefault("p", "2")));
        if (settings.containsKey("maxp")) env.setMaxParallelism(Integer.parseInt(settings.get("maxp")));
        if (settings.containsKey("chaining")) env.disableOperatorChaining();
        GeneratorFunction<Long, Long> numbers = n -> n;
        double rate = Double.parseDouble(settings.getOrDefault("rate", "2000"));
        DataStream<Long> stream = env.fromSource(new DataGeneratorSource<>(numbers, Long.MAX_VALUE, RateLimiterStrategy.perSecond(rate), Types.LONG),
            WatermarkStrategy.noWatermarks(), "numbers").uid("numbers");
        DataStream<Long> source = stream;
        for (int i = 1; i < parts.length; i++) {
            Map<String, String> of = options(parts[i]);
            String states = of.getOrDefault("states", "");
            SingleOutputStreamOperator<Long> next;
            boolean isWindow = List.of("tumbling", "windowlist", "global").contains(of.get("kind")); // which emits no rows here
            if (isWindow) stream = stream.map(new Counted(run)).name("before").uid("before");
            KeyedStream<Long, Object> keyed = of.containsKey("key")
                ? stream.keyBy(new Key(of.get("key"), sources), (TypeInformation<Object>) type(of.get("key"), loader)) : null;
            switch (of.get("kind")) {
                case "keyed": next = keyed.process(new Keyed(run, states, of.containsKey("timers"), Long.parseLong(of.getOrDefault("pause", "0")))).returns(Types.LONG); break;
                case "listed": next = stream.map(new Listed(run, states)); break;
                case "broadcast": {
                    Broadcasting function = new Broadcasting(run, of.get("state"), "", of.get("type"));
                    next = stream.connect(source.broadcast(function.descriptor(loader))).process(function).returns(Types.LONG);
                    break;
                }
                case "map": next = (of.containsKey("rebalance") ? stream.rebalance() : stream).map(new Counted(run)); break;
                case "tumbling": next = keyed.window(TumblingProcessingTimeWindows.of(Duration.ofDays(1000))).aggregate(new Sum()); break;
                case "windowlist": next = keyed.window(TumblingProcessingTimeWindows.of(Duration.ofDays(1000))).apply((k, w, rows, out) -> {}); next = next.returns(Types.LONG); break;
                case "global": next = keyed.window(GlobalWindows.create()).trigger(CountTrigger.of(1000000000)).aggregate(new Sum()); break;
                case "filesink": {
                    stream.map(Object::toString).returns(Types.STRING).name("text").uid("text").sinkTo(FileSink.forRowFormat(
                        new org.apache.flink.core.fs.Path(work.resolve("out").toUri()), new SimpleStringEncoder<String>()).withRollingPolicy(OnCheckpointRollingPolicy.build()).build()).name(of.get("uid")).uid(of.get("uid"));
                    next = null; break;
                }
                case "discard": stream.sinkTo(new DiscardingSink<>()).name("discard").uid(of.get("uid")); next = null; break;
                default: throw new IllegalArgumentException(parts[i]);
            }
            if (next == null) continue;
            if (of.containsKey("uid")) next.uid(of.get("uid")).name(of.get("uid"));
            if (of.containsKey("hash")) next.setUidHash(of.get("hash"));
            if (of.containsKey("p")) next.setParallelism(Integer.parseInt(of.get("p")));
            if (of.containsKey("maxp")) next.setMaxParallelism(Integer.parseInt(of.get("maxp")));
            stream = next;
        }
        stream.map(new Counted(run)).name("counted").uid("counted").sinkTo(new DiscardingSink<>()).name("end").uid("end");
        JobGraph graph = env.getStreamGraph().getJobGraph(RestoreCases.class.getClassLoader(), JobID.generate());
        graph.setClasspaths(List.of(loader.getURLs()));
        if (restore != null) graph.setSavepointRestoreSettings(SavepointRestoreSettings.forPath(restore, allow));
        ROWS.put(run, new AtomicLong());
        FOUND.put(run, new AtomicLong());
        return graph;
    }

    // --- one after another -------------------------------------------------------------------------------------------

    static String text(String value) {
        return "\"" + value.replace("\\", "\\\\").replace("\"", "\\\"").replaceAll("[\\r\\n\\t]+", " ") + "\"";
    }

    static String causes(Throwable error) {
        List<String> found = new ArrayList<>();
        for (Throwable each = error; each != null && found.size() < 12; each = each.getCause())
            found.add(text(each.getClass().getName() + ": " + String.valueOf(each.getMessage()).split("\n")[0]));
        return "[" + String.join(", ", found) + "]";
    }

    /** Say whether all tasks have restored their state: until then they are INITIALIZING. A source without a split ends. */
    static boolean areAllRunning(MiniCluster cluster, JobID id) throws Exception {
        for (AccessExecutionVertex each : cluster.getExecutionGraph(id).get().getAllExecutionVertices())
            if (each.getExecutionState() != ExecutionState.RUNNING && each.getExecutionState() != ExecutionState.FINISHED) return false;
        return true;
    }

    /** Wait until the job has worked on rows in all of its tasks, or has failed; return the error. */
    static Throwable awaitRows(MiniCluster cluster, JobID id, String run, long wanted) throws Exception {
        long end = System.nanoTime() + 60_000_000_000L;
        while (ROWS.get(run).get() < wanted || !areAllRunning(cluster, id)) {
            JobStatus status = cluster.getJobStatus(id).get();
            if (status.isGloballyTerminalState()) {
                JobResult result = cluster.requestJobResult(id).get();
                return result.getSerializedThrowable().map(e -> e.deserializeError(RestoreCases.class.getClassLoader())).orElse(new IllegalStateException(status.toString()));
            }
            if (System.nanoTime() > end) throw new IllegalStateException("the job neither works on rows nor fails");
            Thread.sleep(5);
        }
        return null;
    }

    static String save(MiniCluster cluster, String name, String directory, String text) throws Exception {
        JobGraph graph = job(name, text, null, false);
        cluster.submitJob(graph).get();
        Throwable error = awaitRows(cluster, graph.getJobID(), name, options(text.split(" \\| ")[0]).containsKey("unaligned") ? 400 : 60);
        if (error != null) return "{\"name\": " + text(name) + ", \"error\": " + causes(error) + "}";
        String target = Path.of(directory).toUri().toString();
        String path;
        if (options(text.split(" \\| ")[0]).containsKey("unaligned")) {
            Thread.sleep(1500);
            path = cluster.triggerCheckpoint(graph.getJobID()).get();
            cluster.cancelJob(graph.getJobID()).get();
        } else {
            path = cluster.triggerSavepoint(graph.getJobID(), target, true, SavepointFormatType.CANONICAL).get();
        }
        cluster.requestJobResult(graph.getJobID()).get();
        return "{\"name\": " + text(name) + ", \"path\": " + text(URI.create(path.startsWith("file:") ? path : "file:" + path).getPath()) + "}";
    }

    static String restore(MiniCluster cluster, String name, String directory, String text, boolean allow) throws Exception {
        String run = "restore " + name;
        JobGraph graph = job(run, text, directory, allow);
        Throwable error = null;
        try {
            cluster.submitJob(graph).get();
            error = awaitRows(cluster, graph.getJobID(), run, 60);
        } catch (Exception failed) {
            error = failed;
        }
        if (error == null) {
            cluster.cancelJob(graph.getJobID()).get();
            cluster.requestJobResult(graph.getJobID()).get();
        }
        return "{\"case\": " + text(name) + ", \"restored\": " + (error == null) + ", \"found\": " + FOUND.get(run).get() + ", \"causes\": " + causes(error) + "}";
    }

    public static void main(String[] args) throws Exception {
        PrintStream out = System.out;
        System.setOut(System.err);
        work = Path.of(args[0]);
        Configuration configuration = new Configuration();
        configuration.setString("rest.port", "0");
        configuration.setString("taskmanager.memory.network.min", "64mb");
        configuration.setString("taskmanager.memory.network.max", "64mb");
        configuration.setString("taskmanager.memory.segment-size", "4kb");
        configuration.setString("pekko.ask.timeout", "30s");
        MiniClusterConfiguration small = new MiniClusterConfiguration.Builder().setConfiguration(configuration).setNumTaskManagers(1).setNumSlotsPerTaskManager(16).build();
        try (MiniCluster cluster = new MiniCluster(small)) {
            cluster.start();
            BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
            for (String line = lines.readLine(); line != null; line = lines.readLine()) {
                String[] fields = line.split("\t");
                try {
                    out.println(fields[0].equals("save") ? save(cluster, fields[1], fields[2], fields[3]) : restore(cluster, fields[1], fields[2], fields[3], fields[4].equals("allow")));
                } catch (Throwable failed) {
                    out.println("{\"case\": " + text(fields[1]) + ", \"broken\": " + causes(failed) + "}");
                }
                out.flush();
            }
        }
        System.exit(0);
    }
}
