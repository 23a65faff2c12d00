"""The explorer and its control row."""
