"""The reduction: rules that name steps which need not be tried, because they commute with everything that may come."""
