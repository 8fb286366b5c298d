"""The renderer of the toy dataset: shapes, scenes, light."""
