"""Surgery: changes to a checkpoint, written into a new savepoint. The old one is never changed."""
