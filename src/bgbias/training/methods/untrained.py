"""No training at all, but the embedding layer that training starts from: random, of a length that trained models have.

It stands between the backbone's pooled features, which have many more dimensions, and what training made of them.
"""

TITLE = "Backbone, random layer"
PLACE = 0.5
NEEDS: frozenset[str] = frozenset()
TRAINS = False
