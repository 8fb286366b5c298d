"""From a photo to the mask of its object."""
