"""Arrays of pixels: decoding, boxes, composites. Nothing here knows where pictures come from."""
