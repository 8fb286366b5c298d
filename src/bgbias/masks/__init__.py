"""Masks of objects: made, measured, trusted or not, and trained for."""
