"""`python -m livelog` is the `livelog` command."""

import sys

from livelog.cli import main

if __name__ == "__main__":
    sys.exit(main())
