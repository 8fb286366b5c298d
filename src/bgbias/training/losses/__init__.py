"""What training minimises: one file a loss, with its settings and its distance.

A loss is one file: ``class Params(Strict)``; ``IMAGES_PER_CLASS``, how many photos of a class a batch has; ``DISTANCE``, by which
the attribution score compares embeddings; ``CLASS_WEIGHTS = True`` if it is a cross-entropy over learned weights of classes; and
``build(params, n_classes, dim, generator)``. ``TITLE`` and ``PLACE``, its name and its rows' place in tables, may be left out.
Planning reads the facts of every loss, so these files take torch from ``compute.lazy``, which imports it when it is used.

Only this folder imports pytorch-metric-learning.
"""

# Options that share a file.
SHARED = {
    "_softmax": ("arcface", "cosface", "normalized_softmax", "roth_arcface"),
    "multi_similarity": ("roth_multi_similarity",),
    "triplet": ("quadruplet",),
}
