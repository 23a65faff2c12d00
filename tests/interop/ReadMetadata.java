import java.io.BufferedReader;
import java.io.ByteArrayOutputStream;
import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.InputStream;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.reflect.AccessibleObject;
import java.lang.reflect.Field;
import java.lang.reflect.Method;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Paths;
import java.security.MessageDigest;
import java.util.ArrayList;
import java.util.Base64;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import org.apache.flink.api.java.tuple.Tuple2;
import org.apache.flink.runtime.checkpoint.Checkpoints;
import org.apache.flink.runtime.checkpoint.metadata.CheckpointMetadata;
import org.apache.flink.runtime.state.KeyGroupRange;
import org.apache.flink.runtime.state.KeyGroupRangeOffsets;
import org.apache.flink.runtime.state.KeyedStateHandle;
import org.apache.flink.runtime.state.StateObject;
import org.apache.flink.runtime.state.StreamStateHandle;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.databind.ObjectMapper;

/**
 * What Flink reads in `_metadata` files, in the words of the truth.json files.
 *
 * <p>Each line of the input is a file, a tab, and the directory that its relative paths start from. Each line of the
 * output is {"read": what Flink read, "written": what it writes of that, base64} or {"error": ...}. Getters and fields
 * are looked up by name, so that this compiles and runs with any Flink; what a version does not have is left out.
 */
public final class ReadMetadata {
    /** By class: what it says, as name=getter or name=getter.getter; a name alone is a getter or field of that name. */
    private static final Map<String, String> FIELDS =
            Map.ofEntries(
                    Map.entry(
                            "CheckpointMetadata",
                            "checkpointId=getCheckpointId masterStates=getMasterStates operatorStates=getOperatorStates"
                                    + " checkpointProperties=getCheckpointProperties"),
                    Map.entry("MasterState", "name version bytes"),
                    Map.entry(
                            "CheckpointProperties",
                            "checkpointType=getCheckpointType forced discardSubsumed discardFinished discardCancelled"
                                    + " discardFailed discardSuspended unclaimed"),
                    Map.entry("CheckpointType", "name getName sharingFilesStrategy getSharingFilesStrategy isSavepoint"),
                    Map.entry(
                            "SavepointType",
                            "name getName postCheckpointAction formatType getSharingFilesStrategy isSavepoint"),
                    Map.entry(
                            "OperatorState",
                            "operatorId=getOperatorID name=getOperatorName uid=getOperatorUid parallelism maxParallelism"
                                    + " fullyFinished=isFullyFinished coordinatorState=getCoordinatorState"
                                    + " numberCollectedStates=getNumberCollectedStates subtasks=getSubtaskStates"),
                    Map.entry(
                            "OperatorSubtaskState",
                            "finished=isFinished stateSize managedOperatorState rawOperatorState managedKeyedState"
                                    + " rawKeyedState inputChannelState resultSubpartitionState"),
                    Map.entry("ByteStreamStateHandle", "handleName=getHandleName hex=getData"),
                    Map.entry("FileStateHandle", "path=getFilePath"),
                    Map.entry("RelativeFileStateHandle", "path=getFilePath relativePath=getRelativePath"),
                    Map.entry(
                            "SegmentFileStateHandle",
                            "path=getFilePath startPos=getStartPos scope=getScope"
                                    + " logicalFileId=getLogicalFileId.getKeyString"),
                    Map.entry("KeyGroupsStateHandle", "offsets=getGroupRangeOffsets delegate=getDelegateStateHandle"),
                    Map.entry(
                            "AbstractIncrementalStateHandle",
                            "checkpointId=getCheckpointId backendIdentifier=getBackendIdentifier"
                                    + " metaStateHandle=getMetaDataStateHandle sharedState privateState"),
                    Map.entry("HandleAndLocalPath", "localPath=getLocalPath handle=getHandle"),
                    Map.entry(
                            "ChangelogStateBackendHandleImpl",
                            "materialized=getMaterializedStateHandles nonMaterialized=getNonMaterializedStateHandles"
                                    + " materializationId=getMaterializationID checkpointId=getCheckpointId"),
                    Map.entry("InMemoryChangelogStateHandle", "from=getFrom to=getTo changes=getChanges"),
                    Map.entry(
                            "ChangelogStateHandleStreamImpl",
                            "handlesAndOffsets=getHandlesAndOffsets storageIdentifier=getStorageIdentifier"),
                    Map.entry(
                            "OperatorStreamStateHandle",
                            "stateNameToPartitionOffsets=getStateNameToPartitionOffsets delegate=getDelegateStateHandle"),
                    Map.entry(
                            "FileMergingOperatorStreamStateHandle",
                            "stateNameToPartitionOffsets=getStateNameToPartitionOffsets delegate=getDelegateStateHandle"
                                    + " taskOwnedDir=getTaskOwnedDirHandle.getDirectory"
                                    + " sharedDir=getSharedDirHandle.getDirectory"),
                    Map.entry(
                            "StateMetaInfo",
                            "distributionMode=getDistributionMode distributionModeOrdinal=getDistributionMode.ordinal"
                                    + " offsets=getOffsets"),
                    Map.entry(
                            "InputChannelStateHandle",
                            "subtaskIndex gateIdx=getInfo.getGateIdx inputChannelIdx=getInfo.getInputChannelIdx offsets"
                                    + " delegate=getDelegate"),
                    Map.entry(
                            "ResultSubpartitionStateHandle",
                            "subtaskIndex partitionIdx=getInfo.getPartitionIdx subPartitionIdx=getInfo.getSubPartitionIdx"
                                    + " offsets delegate=getDelegate"),
                    Map.entry(
                            "AbstractMergedChannelStateHandle",
                            "subtaskIndex delegate=getDelegate unmerged=getUnmergedHandles"));

    public static void main(String[] arguments) throws Exception {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        PrintStream out = new PrintStream(System.out, false, StandardCharsets.UTF_8);
        ObjectMapper mapper = new ObjectMapper();
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            String[] fileAndBase = line.split("\t", -1);
            Map<String, Object> answer = new LinkedHashMap<>();
            try (DataInputStream file = new DataInputStream(Files.newInputStream(Paths.get(fileAndBase[0])))) {
                CheckpointMetadata metadata =
                        Checkpoints.loadCheckpointMetadata(
                                file, ReadMetadata.class.getClassLoader(), fileAndBase[1]);
                if (file.read() >= 0) {
                    throw new IllegalStateException("Flink left bytes at the end unread");
                }
                answer.put("read", json(metadata));
                ByteArrayOutputStream written = new ByteArrayOutputStream();
                Checkpoints.storeCheckpointMetadata(metadata, new DataOutputStream(written));
                answer.put("written", Base64.getEncoder().encodeToString(written.toByteArray()));
            } catch (Exception error) {
                answer.put("error", error + ", at " + where(error));
            }
            out.println(mapper.writeValueAsString(answer));
        }
        out.flush();
    }

    /** The last thing of Flink's that an exception came through, but for its checks of arguments. */
    private static StackTraceElement where(Exception error) {
        StackTraceElement[] trace = error.getStackTrace();
        for (StackTraceElement each : trace) {
            if (each.getClassName().startsWith("org.apache.flink") && !each.getClassName().endsWith("Preconditions")) {
                return each;
            }
        }
        return trace[0];
    }

    private static Object json(Object value) throws Exception {
        if (value instanceof Optional) {
            return json(((Optional<?>) value).orElse(null));
        } else if (value == null || value instanceof Boolean || value instanceof Number || value instanceof String) {
            return value;
        } else if (value instanceof byte[]) {
            return hex((byte[]) value);
        } else if (value instanceof long[]) {
            return value;
        } else if (value instanceof Enum) {
            return ((Enum<?>) value).name();
        } else if (value instanceof KeyGroupRange) {
            KeyGroupRange range = (KeyGroupRange) value;
            return List.of(range.getStartKeyGroup(), range.getEndKeyGroup());
        } else if (value instanceof KeyGroupRangeOffsets) {
            List<Object> offsets = new ArrayList<>();
            for (Tuple2<Integer, Long> offset : (KeyGroupRangeOffsets) value) {
                offsets.add(offset.f1);
            }
            return offsets;
        } else if (value instanceof Tuple2) {
            Map<String, Object> says = new LinkedHashMap<>();
            says.put("handle", json(((Tuple2<?, ?>) value).f0));
            says.put("offset", json(((Tuple2<?, ?>) value).f1));
            return says;
        } else if (value instanceof Map) {
            Map<String, Object> says = new LinkedHashMap<>();
            for (Map.Entry<?, ?> entry : ((Map<?, ?>) value).entrySet()) {
                says.put(entry.getKey().toString(), json(entry.getValue()));
            }
            return says;
        } else if (value instanceof Iterable) {
            List<Object> says = new ArrayList<>();
            for (Object element : (Iterable<?>) value) {
                says.add(json(element));
            }
            return says;
        }
        String fields = fields(value.getClass());
        return fields == null ? value.toString() : object(value, fields);
    }

    private static String fields(Class<?> type) {
        String fields = null;
        for (Class<?> each = type; fields == null && each != null; each = each.getSuperclass()) {
            fields = FIELDS.get(each.getSimpleName());
        }
        return fields;
    }

    private static Map<String, Object> object(Object value, String fields) throws Exception {
        Map<String, Object> says = new LinkedHashMap<>();
        says.put("class", value.getClass().getName());
        if (value instanceof StateObject) {
            says.put("stateSize", ((StateObject) value).getStateSize());
        }
        if (value instanceof KeyedStateHandle) {
            says.put("keyGroupRange", json(((KeyedStateHandle) value).getKeyGroupRange()));
            for (String field : List.of("stateHandleId=getStateHandleId", "checkpointedSize=getCheckpointedSize")) {
                put(says, value, field);
            }
        }
        for (String field : fields.split(" ")) {
            put(says, value, field);
        }
        if (says.containsKey("changes")) {
            summarise(says, (Iterable<?>) get(value, "getChanges"));
        }
        if (says.get("path") != null && Files.isRegularFile(Paths.get(says.get("path").toString().replaceFirst("^file:", "")))) {
            says.put("contentSha256", sha256(((StreamStateHandle) value).openInputStream()));
        }
        return says;
    }

    private static void put(Map<String, Object> says, Object value, String field) throws Exception {
        String name = field.substring(0, field.contains("=") ? field.indexOf('=') : field.length());
        Object found = value;
        try {
            for (String getter : field.substring(field.indexOf('=') + 1).split("\\.")) {
                found = get(found, getter);
            }
            says.put(name, json(found));
        } catch (NoSuchFieldException missing) {
            // this Flink does not have it
        }
    }

    private static void summarise(Map<String, Object> says, Iterable<?> changes) throws Exception {
        List<Object> keyGroups = new ArrayList<>();
        List<Object> sizes = new ArrayList<>();
        MessageDigest digest = MessageDigest.getInstance("SHA-256");
        for (Object each : changes) {
            byte[] change = (byte[]) get(each, "getChange");
            keyGroups.add(get(each, "getKeyGroup"));
            sizes.add(change.length);
            digest.update(change);
        }
        says.remove("changes");
        says.put("changeKeyGroups", keyGroups);
        says.put("changeSizes", sizes);
        says.put("changesConcatenatedSha256", hex(digest.digest()));
    }

    /** What a getter or a field of that name gives, wherever in the hierarchy it is declared. */
    private static Object get(Object target, String name) throws Exception {
        for (Class<?> type = target.getClass(); type != null; type = type.getSuperclass()) {
            for (Method method : type.getDeclaredMethods()) {
                if (method.getName().equals(name) && method.getParameterCount() == 0) {
                    return open(method).invoke(target);
                }
            }
            for (Field field : type.getDeclaredFields()) {
                if (field.getName().equals(name)) {
                    return open(field).get(target);
                }
            }
        }
        throw new NoSuchFieldException(name);
    }

    private static <T extends AccessibleObject> T open(T member) {
        member.setAccessible(true);
        return member;
    }

    private static String sha256(InputStream stream) throws Exception {
        try (InputStream closing = stream) {
            return hex(MessageDigest.getInstance("SHA-256").digest(closing.readAllBytes()));
        }
    }

    private static String hex(byte[] bytes) {
        StringBuilder text = new StringBuilder(2 * bytes.length);
        for (byte each : bytes) {
            text.append(String.format("%02x", each));
        }
        return text.toString();
    }
}
