"""A run that the explorer shows: its history, the user's actions, what may happen next, its details."""
