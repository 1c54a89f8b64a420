"""Two jobs in mode "streams" on two logical processors: run as a script in a process of its own."""

import json
import sys

import tensorflow as tf
from colocated_jobs import X, Y, small

import tfmp
from tfmp.colocation.modes import run_in_process


def main() -> None:
    if sys.argv[1:] == ["late"]:
        tf.constant(1.0)
    jobs = [
        tfmp.Job(small, (X, Y), policy, 6, name=policy, batch_size=8, seed=1)
        for policy in ("float32", "mixed_bfloat16")
    ]
    try:
        report = tfmp.colocate(jobs, "streams", measure_steps=2)
    except ValueError as error:
        sys.stdout.write(str(error))
        return
    alone = run_in_process("sequential", jobs)
    found = {
        "errors": [job.error for job in report.jobs],
        "devices": [
            sorted({variable.value.device for variable in job.model.variables})
            for job in report.jobs
        ],
        "same": [
            all(
                bool((a == b).all())
                for a, b in zip(one.get_weights(), two.get_weights(), strict=True)
            )
            for one, two in zip(
                (job.model for job in report.jobs), (job.model for job in alone.jobs), strict=True
            )
        ],
        "why": report.run.why,
    }
    sys.stdout.write(json.dumps(found))


if __name__ == "__main__":
    main()
