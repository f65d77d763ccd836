"""Runs programs one after the other, each in a fork that has torch and the trainers loaded already.

Called by test_python_blocks.py: programs come by standard input as JSON, how they ended goes out.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import signal
import sys
import traceback
from pathlib import Path

LOADED = ("torch", "lightning.pytorch", "transformers.trainer", "accelerate", "fsspec")
EACH_S = 60


def main() -> int:
    """Run all programs of a folder, each in a folder of its own below it."""
    folder = Path(sys.argv[1])
    for name in LOADED:
        with contextlib.suppress(ImportError):  # its programs say so
            importlib.import_module(name)
    ended = {}
    for number, (name, text) in enumerate(json.load(sys.stdin).items()):
        own = folder / str(number)
        own.mkdir()
        pid = os.fork()
        if pid == 0:
            _be(text, own)
        code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        ended[name] = [code, (own / "said").read_text()]
    json.dump(ended, sys.stdout)
    return 0


def _be(text: str, folder: Path) -> None:
    """Be one program; never returns."""
    signal.alarm(EACH_S)  # a program that hangs is ended by it
    os.chdir(folder)
    said = os.open("said", os.O_WRONLY | os.O_CREAT, 0o644)
    for number in (1, 2):
        os.dup2(said, number)
    code = 1
    try:
        exec(compile(text, "page", "exec"), {"__name__": "__main__"})
        code = 0
    except SystemExit as left:
        code = left.code if isinstance(left.code, int) else 1
        print(left, file=sys.stderr)
    except BaseException:  # noqa: BLE001 -- nothing may return into the loop of the parent
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


if __name__ == "__main__":
    sys.exit(main())
