"""`python -m loopkit`."""

from loopkit.cli import main

if __name__ == "__main__":
    main()
