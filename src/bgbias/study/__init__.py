"""What params.yaml means: its settings, its cells, and where everything lies."""

from bgbias.study.cell import CELL, Cell
from bgbias.study.params import Study

__all__ = ["CELL", "Cell", "Study"]
