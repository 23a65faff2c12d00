"""Checks of what users pass in: allowed values, durations, and the names that users of other systems try first."""
