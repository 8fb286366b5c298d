"""No training at all: the backbone's pooled features as they come, the zero line of every table.

``untrained`` has the embedding layer that training starts from: random, of a length that trained models have. It stands between
these features, which have many more dimensions, and what training made of them.
"""

TITLE = "Backbone alone"
PLACE = 0
NEEDS: frozenset[str] = frozenset()
TRAINS = False
MEMBERS = {
    "untrained": {
        "__doc__": "No training at all, but the embedding layer that training starts from: random, of a length that"
        " trained models have.",
        "TITLE": "Backbone, random layer",
        "PLACE": 0.5,
    }
}
