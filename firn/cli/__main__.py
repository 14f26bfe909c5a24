"""`python -m firn.cli`: the command line where the `firn` script is not on the path."""

from firn.cli import main

if __name__ == "__main__":
    main()
