"""From a model and photos to embeddings, rankings and retrieval metrics."""
