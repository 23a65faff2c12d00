"""Channels between subtasks: the queues at both ends, and the credits between them."""
