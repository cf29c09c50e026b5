"""Runs a command; after its output, a last line with its CPU seconds and its peak memory in bytes.

Not part of peers.py: the peak of a child counts from the memory of the process that starts it, so the starter
must be small. Its own memory is the least that can be seen.
"""

import os
import sys

child = os.fork()
if child == 0:
    os.execv(sys.argv[1], sys.argv[1:])
_, status, usage = os.wait4(child, 0)
seconds = usage.ru_utime + usage.ru_stime
print('\n{"seconds": %f, "peak_bytes": %d}' % (seconds, usage.ru_maxrss * 1024), flush=True)
sys.exit(os.waitstatus_to_exitcode(status))
