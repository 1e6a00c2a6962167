"""`python -m bireme`: the command `bireme`."""

import sys

from bireme.command import main

if __name__ == "__main__":
    sys.exit(main())
