"""The request by which a training process tells its numbers to the agent of its node.

``cmd`` is ``numbers``; ``process`` tells one process from another with the same pid (containers).
What a newer client tells besides is ignored; what an older one does not tell is 0.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from linkhold.model import WireError
from linkhold.model.numbers import NAMES, JobLabel, Numbers
from linkhold.wire.documents import dumps

if TYPE_CHECKING:
    from collections.abc import Mapping

NUMBERS_CMD = "numbers"
MOST = 1e15
"""Of a counter: more than this is no count of anything that happens here."""
_LABEL = re.compile(r"[A-Za-z0-9_.-]{1,64}")
_PROCESS = re.compile(r"[0-9a-f]{16}")


def clean_label(text: str) -> str:
    """Return a name as it may stand in a label: other characters become ``_``, 64 at most."""
    return re.sub(r"[^A-Za-z0-9_.-]", "_", text)[:64]


def numbers_request(label: JobLabel, process: str, numbers: Numbers) -> bytes:
    """Return the request as one line of JSON."""
    told = {name: getattr(numbers, name) for name in NAMES}
    content = {"script": label.script, "run": label.run, "process": process, "numbers": told}
    return dumps({"cmd": NUMBERS_CMD, **content}) + b"\n"


def parse_numbers(request: Mapping[str, Any]) -> tuple[JobLabel, str, Numbers]:
    """Return job, process and numbers of a request; raises :class:`WireError` with the reason."""
    script, run = _text(request, "script"), request.get("run", "")
    if run != "":
        run = _text(request, "run")
    process = request.get("process")
    if not isinstance(process, str) or not _PROCESS.fullmatch(process):
        raise WireError(f"process: {process!r:.40} is not 16 hexadecimal digits")
    told = request.get("numbers")
    if not isinstance(told, dict):
        raise WireError("numbers: an object of names and counts is needed")
    values = {name: _count(told.get(name, 0), name) for name in NAMES}
    held_s = values.pop("held_s")
    counts = {name: int(value) for name, value in values.items()}
    return JobLabel(script, run), process, Numbers(held_s=held_s, **counts)


def _text(request: Mapping[str, Any], name: str) -> str:
    value = request.get(name)
    if not isinstance(value, str) or not _LABEL.fullmatch(value):
        raise WireError(f"{name}: {value!r:.80} is not 1 to 64 letters, digits, dots, - or _")
    return value


def _count(value: Any, name: str) -> float:
    right = isinstance(value, (int, float)) and not isinstance(value, bool)
    if not right or not 0 <= value <= MOST:  # no infinity, and no NaN
        raise WireError(f"numbers.{name}: {value!r:.40} is no count from 0 to {MOST:g}")
    return float(value)
