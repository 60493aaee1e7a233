"""`python -m tests.fuzz`."""

import sys

from tests.fuzz.main import main

if __name__ == "__main__":
    sys.exit(main())
