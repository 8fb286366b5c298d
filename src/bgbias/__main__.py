"""``bgbias``, and ``python -m bgbias <step> ...``: every rule of the workflow as a command a person can type."""

import signal


def main() -> None:
    """A command of bgbias, in a process of its own."""
    # Until the command has its own way to end, Ctrl-C ends the process without a traceback of what it imports.
    if signal.getsignal(signal.SIGINT) == signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    from bgbias.compute import processor

    processor.share()  # before numpy and torch load the libraries that read it
    from bgbias.cli import main as command

    command()


if __name__ == "__main__":
    main()
