"""The state of running operators: keyed state in columns with its timers, operator state, and how both are written."""
