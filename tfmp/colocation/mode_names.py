"""The names of the ways to train several jobs. No framework is loaded to read them."""

SEQUENTIAL, INTERLEAVED, THREADS, FUSED = "sequential", "interleaved", "threads", "fused"

# Ways to share one process; the first has each job alone.
IN_PROCESS = (SEQUENTIAL, INTERLEAVED, THREADS, FUSED)

# Each job in a process of its own.
PROCESSES = "processes"

# Short runs in all of them, then the fastest.
AUTO = "auto"

MODES = (AUTO, *IN_PROCESS, PROCESSES)
