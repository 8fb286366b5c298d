"""Arguments that several commands take, and the words of help for commands and steps."""

from pathlib import Path
from typing import Annotated

import typer

from bgbias.settings import read_yaml

Grid = Annotated[str | None, typer.Option(help="Named grid of params.yaml; its `grid` if not given.")]
Params = Annotated[Path, typer.Option(help="The study's file.")]
Device = Annotated[
    str, typer.Option(help="auto, cpu or cuda; a GPU that is asked for and absent is an error.")
]
ImageColumn = Annotated[str, typer.Option(help="A table's column of photos; path, image, file, ...")]
LabelColumn = Annotated[str, typer.Option(help="A table's column of classes; class, label, category.")]
Place = Annotated[
    str, typer.Option(help="Where photos were taken: a table's column (place), or a level of folders.")
]
DEFAULT = Path("params.yaml")
WORDS = read_yaml(Path(__file__).with_name("words.yaml"))
