"""Found by every Python process that a test's command starts: jobs of Snakemake begin with their imports done.

A process of support/warm_python.py that has them does the job's work, and this one waits for its end.
"""

import os
import sys

SOCKET = "BGBIAS_TESTS_WARM"  # the variable that names it
THREADS = "OMP_NUM_THREADS"  # libraries read it when they are imported

if sys.orig_argv[1:3] == ["-m", "bgbias"] and SOCKET in os.environ and os.environ.get(THREADS) == "1":
    import json
    import socket

    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as there:
        try:
            there.connect(os.environ[SOCKET])
            around = {name: value for name, value in os.environ.items() if name != SOCKET}
            asked = json.dumps([sys.orig_argv[2:], os.getcwd(), around])  # noqa: PTH109  # no pathlib here
            socket.send_fds(there, [asked.encode()], [1, 2])
            answer = there.recv(16)
        except OSError:  # none is there: the imports are done here
            answer = b""
        if answer:
            os._exit(int(answer))
