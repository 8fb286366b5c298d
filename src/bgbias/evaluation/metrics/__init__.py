"""From the nearest neighbours of each query to one number a query."""

OTHERS = "map_at_r_of_others"
"""The column beside a query's metrics that says what its class means for others (``evaluation.without_class``)."""
OF_DONOR = "nearest_of_donor"
"""Another one, where there is one: whether the nearest photo is of the class that lent the query its background."""
