#!/bin/sh
# Prints the first Python that can make the environment: of those that are named, or of the current ones (3.14 late, as one
# package has no wheel for it and takes a C compiler).
# A name on the path is not enough: pyenv has names of versions that are not there, and Debian a Python without venv.
[ $# -gt 0 ] || set -- python3.13 python3.12 python3.11 python3.14 python3
for python in "$@"; do
    if "$python" -c 'import ensurepip, sys, venv; sys.exit(not (3, 11) <= sys.version_info < (3, 15))' >/dev/null 2>&1; then
        echo "$python"
        exit 0
    fi
done
echo "No Python from 3.11 to 3.14 with venv was found among: $*. Install one (Debian and Ubuntu: apt-get install python3 python3-venv)," \
    "or say where it is: make setup PYTHON=/path/to/python3.13" >&2
exit 1
