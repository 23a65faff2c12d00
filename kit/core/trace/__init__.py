"""The record of a run: its trace, its schedule, the shape of its epochs, and the files that keep them."""
