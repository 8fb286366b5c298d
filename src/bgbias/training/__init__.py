"""Training an embedding model: batches, losses, methods, and the loop that selects by validation."""
