"""Collections of photos: their table, splits, and pixels prepared for a model."""
