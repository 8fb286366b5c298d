"""From the nearest neighbours of each query to one number a query.

A file with ``WHOLE = True`` speaks of whole rankings (``whole_gallery.WholeRanking``): it is asked where a dataset gives queries
and gallery, and nowhere else.
"""

from bgbias import plugins

SHARED = {
    "_rankings": (
        *("r_precision", "recall_at_2", "recall_at_4", "recall_at_8", "average_precision"),
        *(f"{name}_{k}" for name in ("cmc", "single_shot_cmc") for k in (1, 5, 10)),
    )
}
OTHERS = "map_at_r_of_others"
"""The column beside a query's metrics that says what its class means for others (``evaluation.exclusion``)."""
AP_OTHERS = "average_precision_of_others"
"""The same for the average precision of whole rankings (``evaluation.whole_gallery``)."""
OF_DONOR = "nearest_of_donor"
"""Another one, where there is one: whether the nearest photo is of the class that lent the query its background."""

MATCHED = {"symmetric": "map_at_r_matched", "query": "map_at_r_matched_query"}
"""By setting: MAP@R in galleries that lack, in every condition, the photos that lend backgrounds in one of them (``scores``)."""
MATCHED_OTHERS = {setting: f"{name}_of_others" for setting, name in MATCHED.items()}
"""The same as ``OTHERS`` for these."""


def names(whole: bool = False) -> tuple[str, ...]:
    """The metrics of first ranks, or those of whole rankings."""
    return tuple(
        name
        for name in plugins.names("metrics")
        if getattr(plugins.load("metrics", name), "WHOLE", False) == whole
    )
