"""One typed function for each rule of the workflow: it reads files, calls the library, and writes files with a record.

The same function runs under Snakemake, from the command line (``python -m bgbias <node> ...``) and in tests.
"""
