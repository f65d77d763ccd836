"""A real Prometheus under test control."""

from __future__ import annotations

import json
import subprocess
import urllib.request
from contextlib import suppress
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import yaml

from support.broker import TIED_TO_US, free_port, wait_until
from support.oncall import FILES

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

PROMETHEUS = "/usr/bin/prometheus"


class Prometheus:
    """One process with the shipped rules; it reads endpoints of the loopback every second."""

    def __init__(self, folder: Path, ports: Sequence[int]) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._url = f"http://127.0.0.1:{free_port()}"
        targets = [{"targets": [f"127.0.0.1:{port}" for port in ports]}]
        every = {"scrape_interval": "1s", "scrape_timeout": "1s", "evaluation_interval": "1s"}
        document = {
            "global": every,
            "rule_files": [str(FILES / "linkhold.rules.yml")],
            "scrape_configs": [{"job_name": "linkhold", "static_configs": targets}],
        }
        (folder / "prometheus.yml").write_text(yaml.safe_dump(document))
        command = [
            *(*TIED_TO_US, PROMETHEUS, f"--config.file={folder}/prometheus.yml"),
            *(f"--storage.tsdb.path={folder}/data", f"--web.listen-address={self._url[7:]}"),
        ]
        with (folder / "log").open("wb") as log:
            self._process = subprocess.Popen(command, stdout=log, stderr=log)
        wait_until(self._ready, 20, "prometheus is ready")

    def _ready(self) -> bool:
        with (
            suppress(OSError),
            urllib.request.urlopen(f"{self._url}/-/ready", timeout=2) as answer,
        ):
            return bool(answer.status == 200)
        return False

    def _ask(self, path: str) -> Any:
        with urllib.request.urlopen(f"{self._url}/api/v1/{path}", timeout=5) as answer:
            return json.load(answer)["data"]

    def series(self, expression: str) -> list[Any]:
        """Return what an expression gives now; raises OSError for one that is none."""
        return list(self._ask(f"query?query={quote(expression)}")["result"])

    def problems(self) -> list[str]:
        """Return what it says about rules that it cannot evaluate, and targets not to be read."""
        rules = [rule for group in self._ask("rules")["groups"] for rule in group["rules"]]
        targets = self._ask("targets")["activeTargets"]
        return [one["lastError"] for one in (*rules, *targets) if one.get("lastError")]

    def kill(self) -> None:
        """End it as a power cut would."""
        self._process.kill()
        self._process.wait()
