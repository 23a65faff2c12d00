"""Keys: their hashes, codes and indexes."""
