"""Metrics of all embeddings of a split together: one metric, one file. (``metrics`` give each query a number of its own.)

A file has ``TITLE``, its name for people, and ``of_embeddings(embeddings, labels)``, a number of unit vectors float32 [N, d] with
the numbers of their classes, int64 [N]; NaN where it cannot be told.
"""
