"""The names of the ways to train several jobs. No framework is loaded to read them."""

SEQUENTIAL, INTERLEAVED, THREADS, FUSED = "sequential", "interleaved", "threads", "fused"

# Ways to share one process; the first has each job alone.
IN_PROCESS = (SEQUENTIAL, INTERLEAVED, THREADS, FUSED)

# Ways that keep to the weights of jobs: the others let each job go as fast as it can.
IN_ROUNDS = (INTERLEAVED, FUSED)

# Each job in its own process.
PROCESSES = "processes"

# Measures short runs in all modes, then takes the fastest.
AUTO = "auto"

MODES = (AUTO, *IN_PROCESS, PROCESSES)
