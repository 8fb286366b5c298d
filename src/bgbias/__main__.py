"""``python -m bgbias <node> ...``: every rule of the workflow as a command a person can type."""

from bgbias.engine import warm


def _command() -> None:
    from bgbias.cli import main

    main()


if __name__ == "__main__":
    warm.run(_command)
