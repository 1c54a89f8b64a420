"""A module whose native code the processor does not know, for tests of worker processes."""

import os
import signal

os.kill(os.getpid(), signal.SIGILL)
