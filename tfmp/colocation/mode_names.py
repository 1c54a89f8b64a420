"""The names of the ways to train several jobs. No framework is loaded to read them."""

SEQUENTIAL, INTERLEAVED, THREADS = "sequential", "interleaved", "threads"

# Ways to share one process; the first has each job alone, the second alone keeps to their weights.
IN_PROCESS = (SEQUENTIAL, INTERLEAVED, THREADS)

# Each job in its own process.
PROCESSES = "processes"

# Measures short runs in all modes, then takes the fastest.
AUTO = "auto"

MODES = (AUTO, *IN_PROCESS, PROCESSES)
