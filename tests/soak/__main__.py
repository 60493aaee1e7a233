"""`python -m tests.soak`: see `tests.soak.run`."""

from tests.soak.run import main

if __name__ == "__main__":
    main()
