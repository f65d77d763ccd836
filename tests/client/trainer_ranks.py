"""Real trainers for tests: ``python trainer_ranks.py MODULE ...`` loads modules, then forks.

Serves the functions of the last one as :mod:`client.ranks` serves its own.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
import warnings
from pathlib import Path

TESTS = Path(__file__).resolve().parent.parent


def main() -> None:
    """Serve jobs until the input ends."""
    import torch
    import torch._dynamo
    import torch.distributed.fsdp  # what DDP would load in each rank

    from client import ranks

    ranks._die_with_parent()
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")  # the trainers' own, of which there are many
    answers = os.dup(1)
    os.dup2(2, 1)
    for name in sys.argv[1:]:
        jobs = importlib.import_module(name)
    for line in sys.stdin:
        order = json.loads(line)
        job = getattr(jobs, order["job"])
        found = ranks._run(job, order["world"], Path(order["folder"]), order["arguments"])
        os.write(answers, json.dumps(found).encode() + b"\n")


if __name__ == "__main__":
    sys.path[0] = str(TESTS)
    main()
