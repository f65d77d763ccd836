"""``make soak``: does anything grow? See ``--help``."""

from __future__ import annotations

import sys
from pathlib import Path

if __name__ == "__main__":
    sys.path[0] = str(Path(__file__).resolve().parent.parent)
    from soak.suite import main

    sys.exit(main(sys.argv[1:]))
