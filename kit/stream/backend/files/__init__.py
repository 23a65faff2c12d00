"""Files of keyed state: how they are written, ordered and read in part."""
