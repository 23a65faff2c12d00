"""The demonstration: a keyed job over real flights, checkpointed, killed, restored and rescaled."""
