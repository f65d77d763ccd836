"""Run one scenario by hand: ``python tests/support/lab/run.py FILE::FUNCTION [NAME=JSON ...]``.

Prints what came back, the kernel's messages and where the console log is.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

TESTS = Path(__file__).resolve().parents[2]


def main(target: str, *words: str) -> int:
    """Run the scenario ``target`` names and return 0 if it came to its end."""
    from support.lab import scenarios
    from support.lab.host import Lab

    file, _, name = target.partition("::")
    scene = scenarios.find(str(Path(file).resolve()), name)
    params = {key: json.loads(value) for key, _, value in (word.partition("=") for word in words)}
    with Lab() as lab:
        outcome = lab.attempt(scene, **params)
        console = lab.console
    print(outcome.describe())
    print(f"--- value ---\n{json.dumps(outcome.value, indent=2)}")
    if console:
        print(f"--- console ---\n{console}")
    return 0 if outcome.ok else 1


if __name__ == "__main__":
    if len(sys.argv) < 2 or "::" not in sys.argv[1]:
        sys.exit(__doc__)
    # The script's own folder, which Python put first, would make `kernel` a top-level module.
    sys.path[:1] = [str(TESTS), str(TESTS.parent / "agent")]
    sys.exit(main(*sys.argv[1:]))
