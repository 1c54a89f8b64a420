"""NVIDIA ModelOpt's AutoCast as a process of its own, for `fp16_peers.py`.

It pins other versions of ONNX and ONNX Runtime than this project and needs PyTorch, so it lives in
another virtual environment, whose Python runs this file. Reads one JSON object a line: the paths
of a model, of samples (.npz) and of where to write the result. Answers with the seconds that the
pass took, or with what it raised.
"""

import json
import os
import sys
import time

# What libraries print must not come between the answers.
answers = os.fdopen(os.dup(1), "w")
os.dup2(2, 1)

import onnx
from modelopt.onnx.autocast import configure_logging, convert_to_mixed_precision

configure_logging("ERROR")
for line in sys.stdin:
    job = json.loads(line)
    try:
        start = time.process_time()
        converted = convert_to_mixed_precision(
            job["model"], keep_io_types=True, calibration_data=job["samples"]
        )
        seconds = time.process_time() - start
        onnx.save(converted, job["output"])
        answer = {"seconds": seconds}
    except Exception as error:  # whatever it raises is the result
        answer = {"error": type(error).__name__}
    print(json.dumps(answer), file=answers, flush=True)
