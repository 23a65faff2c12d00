"""The package whose name is the kit's alone: it says so if another package has overwritten the module `kit`."""
