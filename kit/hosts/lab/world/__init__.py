"""The world of a lab: messages, timers and files, and what may happen next."""
