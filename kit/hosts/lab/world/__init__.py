"""The world of a lab: messages, timers, files, and the enabled actions."""
