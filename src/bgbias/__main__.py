"""``python -m bgbias <node> ...``: every rule of the workflow as a command a person can type."""

from bgbias.cli import main

if __name__ == "__main__":
    main()
