"""The tables of a report: one table, one file."""
