"""Channels between subtasks: the queues at both ends, the credits between them, and the state of what is in flight."""
