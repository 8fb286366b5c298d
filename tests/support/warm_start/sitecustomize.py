"""Found by every Python process that a test's command starts: a warm process of a workflow begins with its imports done.

It is forked from the process of support/warm_python.py that has them, and this one, which would have imported them, ends.
"""

import os
import sys

MARK = "warm-process"  # as engine/warm.py calls it
SOCKET = "BGBIAS_TESTS_WARM"  # the variable that names it
THREADS = "OMP_NUM_THREADS"  # libraries read it when they are imported

if sys.orig_argv[1:4] == ["-m", "bgbias", MARK] and SOCKET in os.environ and os.environ.get(THREADS) == "1":
    import json
    import socket

    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as there:
        try:
            there.connect(os.environ[SOCKET])
            asked = json.dumps([sys.orig_argv[3:], os.getcwd(), dict(os.environ)])  # noqa: PTH109  # no pathlib here
            socket.send_fds(there, [asked.encode()], [int(sys.orig_argv[4])])
        except OSError:  # none is there: the imports are done here
            pass
        else:
            os._exit(0)
