"""The version of the package, which stands nowhere else."""

VERSION = "0.1.0"
