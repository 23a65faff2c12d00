"""Sources: splits, readers, and the coordinator that assigns the splits."""
