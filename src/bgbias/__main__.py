"""``bgbias``, and ``python -m bgbias <step> ...``: every rule of the workflow as a command a person can type."""

from bgbias.compute import cores


def main() -> None:
    """A command of bgbias, in a process of its own."""
    cores.share()  # before numpy and torch load the libraries that read it
    from bgbias.cli import main as command

    command()


if __name__ == "__main__":
    main()
