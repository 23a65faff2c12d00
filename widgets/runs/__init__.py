"""A user's session without widgets: its runs and actions, what may happen next, the details of an item."""
