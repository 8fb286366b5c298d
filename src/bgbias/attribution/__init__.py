"""Where a model looks: maps of a photo, and how much of them lies on the object."""
