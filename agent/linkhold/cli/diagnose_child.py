"""The process in which the agent has a diagnosis made, so that a hung step cannot hold it up.

One JSON document on stdin, ``{"since_s", "config", "run_dir"}``, and the report on stdout. All
three are the agent's own words: nothing of them comes from the fleet but one of four ages.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from linkhold.cli import diagnose_sources as given
from linkhold.config import Settings
from linkhold.diagnose import diagnose, document, plan_of
from linkhold.model import ConfigError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

NICE = 10
OOM_SCORE = "500"
"""The kernel ends this process before the agent and before training (proc(5))."""


def main(_arguments: Sequence[str]) -> int:
    """Answer the question on stdin and return the exit code."""
    os.nice(NICE)
    with contextlib.suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text(OOM_SCORE)
    json.dump(answer(json.load(sys.stdin)), sys.stdout)
    return 0


def answer(question: Mapping[str, Any]) -> dict[str, Any]:
    """Diagnose as ``linkhold diagnose`` does, with the agent's configuration."""
    named = Path(question["config"]) if question["config"] else None
    try:
        settings, doubt = given.settings_of(named)
    except ConfigError as error:  # somebody is editing it; the agent goes on with the old one
        settings, doubt = Settings(), f"the configuration is not used: {error.mistakes[0]}"
    plan = plan_of(settings, since_s=question["since_s"])
    sources = given.sources_of(settings, Path(question["run_dir"]))
    found = asyncio.run(diagnose(plan, sources))
    return {**document(found), "configuration": doubt or None}
