"""Flink's names in five articles on its source, from the timer to the completed checkpoint and back.

Their topics are: A, from the request to the tasks, and back to a checkpoint; B, from the timer to the first barrier; C,
execution and completion; D, each part of the coordinator; E, the task. `article("A")` shows where each name of one is
in the kit; the notebook `15-reading-the-source` runs the scenes.
"""

from __future__ import annotations

from kit.glossary import Places, places

ARTICLES = {
    "A": """
        CheckpointCoordinator#startTriggeringCheckpoint CheckpointCoordinator#initializeCheckpoint
        CheckpointCoordinator#createPendingCheckpoint preCheckGlobalState CheckpointCanceller
        CheckpointCoordinator#snapshotMasterState
        OperatorCoordinatorCheckpoints#triggerAndAcknowledgeAllCoordinatorCheckpointsWithCompletion
        CheckpointCoordinator#snapshotTaskState CheckpointCoordinator#onTriggerSuccess
        CheckpointCoordinator#onTriggerFailure SchedulerBase#restoreState JOB_FAILOVER_REGION
        CheckpointCoordinator#abortPendingCheckpoint CheckpointFailureManager
        CheckpointCoordinator#restoreLatestCheckpointedState SharedStateRegistry CompletedCheckpointStore#recover
        registerSharedStatesAfterRestored StateAssignmentOperation#assignStates checkStateMappingCompleteness
        checkParallelismPreconditions MasterHooks#restoreMasterHooks acknowledgeMasterState
        acknowledgeCoordinatorState ByteStreamStateHandle Execution#triggerCheckpointHelper
        TaskExecutor#triggerCheckpoint TASK_CHECKPOINT_FAILURE Task#triggerCheckpointBarrier
    """,
    "B": """
        startCheckpointScheduler CheckpointCoordinator#scheduleTriggerWithDelay ScheduledTrigger tasksToTrigger
        SubtaskCheckpointCoordinatorImpl#checkpointState lastCheckpointId abortedCheckpointIds
        CancelCheckpointMarker FORCED_ALIGNED OperatorChain#prepareSnapshotPreBarrier OperatorChain#broadcastEvent
        CheckpointBarrier registerAlignmentTimer ChannelStateWriter#finishOutput takeSnapshotSync
        finishAndReportAsync
    """,
    "C": """
        takeSnapshotSync CHECKPOINT_DECLINED_TASK_CLOSING buildOperatorSnapshotFutures
        StreamOperatorStateHandler#snapshotState OperatorSnapshotFutures abortCheckpointOnBarrier clearCacheFor
        ChannelStateWriter#abort notifyCheckpointAborted AsyncCheckpointRunnable AsyncCheckpointState#RUNNING
        AsyncCheckpointState#DISCARDED AsyncCheckpointState#COMPLETED cancelAsyncCheckpointRunnable
        reportCompletedSnapshotStates CheckpointCoordinator#receiveAcknowledgeMessage
        PendingCheckpoint#acknowledgeTask TaskAcknowledgeResult TaskAcknowledgeResult#SUCCESS
        TaskAcknowledgeResult#DUPLICATE TaskAcknowledgeResult#UNKNOWN TaskAcknowledgeResult#DISCARDED
        SubtaskStateStats CheckpointCoordinator#completePendingCheckpoint registerSharedStates
        PendingCheckpoint#finalizeCheckpoint CompletedCheckpointStore#addCheckpoint rememberRecentCheckpointId
        dropSubsumedCheckpoints lastCheckpointCompletionRelativeTime sendAcknowledgeMessages declineCheckpoint
        CheckpointCoordinator#receiveDeclineMessage CheckpointCoordinator#abortPendingCheckpoint sendAbortedMessages
    """,
    "D": """
        InputChannelInfo ResultSubpartitionInfo SequentialChannelStateReader ChannelStateWriter
        ChannelStateWriteResult SEQUENCE_NUMBER_RESTORED SEQUENCE_NUMBER_UNKNOWN DEFAULT_MAX_CHECKPOINTS
        ChannelStateWriteRequestExecutor ChannelStateWriteRequestDispatcher MasterHooks#triggerHook
        MasterHooks#restoreMasterHooks CheckpointMetadata MetadataSerializer MetadataV2Serializer
        MetadataV3Serializer MasterState StreamNode JobGraph ExecutionGraph JobCheckpointingSettings
        createAndRestoreExecutionGraph tryRestoreExecutionGraphFromSavepoint CheckpointCoordinator#restoreSavepoint
        resolveCheckpoint Checkpoints#loadAndValidateCheckpoint CheckpointIDCounter#setCount CheckpointIDCounter
        StandaloneCheckpointIDCounter ZooKeeperCheckpointIDCounter minPauseBetweenCheckpoints baseInterval
        CheckpointRequestDecider CheckpointCoordinator#triggerSavepoint CheckpointCoordinator#triggerCheckpoint
        snapshotTaskState notifyCheckpointComplete notifyCheckpointAborted
    """,
    "E": """
        StreamTask#triggerCheckpoint StreamTask#triggerCheckpointAsync StreamTask#triggerCheckpointOnBarrier
        processBarrier StreamTask#performCheckpoint isSynchronous setSynchronousSavepointId advanceToEndOfEventTime
        MAX_WATERMARK SubtaskCheckpointCoordinatorImpl#checkpointState CancelCheckpointMarker
    """,
}


def article(letter: str) -> Places:
    """Return the place in the kit of each name of an article, "A" to "E", in reading order; a table in a notebook."""
    if letter not in ARTICLES:
        raise ValueError(f"there is no article {letter!r}: there are {', '.join(ARTICLES)}")
    return places(ARTICLES[letter])
