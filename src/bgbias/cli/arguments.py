"""Arguments that several commands take, and the words of help for commands and steps."""

from pathlib import Path
from typing import Annotated, Any

import typer

from bgbias.settings import read_yaml

DEFAULT = Path("params.yaml")
WORDS = read_yaml(Path(__file__).with_name("words.yaml"))


def option(command: str, name: str, *flags: str, **bounds: Any) -> Any:
    """An option of a command, with its help; ``all``: of several commands."""
    return typer.Option(*flags, help=WORDS["options"][command][name], **bounds)


def argument(command: str, name: str) -> Any:
    """An argument of a command, with its help."""
    return typer.Argument(help=WORDS["options"][command][name])


Grid = Annotated[str | None, option("all", "grid")]
Params = Annotated[Path, option("all", "params")]
Device = Annotated[str, option("all", "device")]
ImageColumn = Annotated[str, option("all", "image_column")]
LabelColumn = Annotated[str, option("all", "label_column")]
Place = Annotated[str, option("all", "place")]
Uri = Annotated[str | None, option("all", "uri")]
