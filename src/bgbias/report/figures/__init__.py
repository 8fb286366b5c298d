"""The figures of a report: one figure, one file."""
