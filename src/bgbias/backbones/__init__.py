"""Networks from a photo to a feature map, each with its preprocessing facts."""
