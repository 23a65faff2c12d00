"""The explorer's panels, each a tab."""
