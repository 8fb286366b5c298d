"""What computes: devices, their shares among processes, and work that overlaps."""
