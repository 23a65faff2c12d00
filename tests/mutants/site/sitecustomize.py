"""Python runs this at the start of each process that has this directory on its path: plant the fault it is given."""

import os

if "KIT_MUTANT" in os.environ:
    from tests.mutants.planting import plant_for_good

    plant_for_good(os.environ["KIT_MUTANT"])
