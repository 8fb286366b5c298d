"""Somebody else's folder may be a package of Python."""
