"""Reading checkpoint directories: the files of a snapshot, their owners, and the values in them."""
