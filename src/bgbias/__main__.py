"""``python -m bgbias <node> ...``: every rule of the workflow as a command a person can type."""

from bgbias.compute import cores
from bgbias.engine import warm


def _command() -> None:
    from bgbias.cli import main

    main()


if __name__ == "__main__":
    cores.share()  # before the warm process is asked, which is one of the same environment
    warm.run(_command)
