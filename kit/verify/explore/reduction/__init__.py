"""The reduction: rules for steps that do not have to be tried, because they commute with everything that may come."""
