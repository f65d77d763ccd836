"""What every test process needs."""

from __future__ import annotations

import signal

# A shell starts what it puts into the background with SIGINT ignored, and that is inherited by
# every program that a test starts: Ctrl-C could not be tried.
signal.signal(signal.SIGINT, signal.default_int_handler)
