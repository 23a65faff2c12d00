"""`python -m kit doctor`: see `kit.doctor`."""

import sys

from kit.checkup import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
