"""No training at all: the backbone's pooled features as they come, the zero line of every table."""

TITLE = "Backbone alone"
PLACE = 0
NEEDS: frozenset[str] = frozenset()
TRAINS = False
