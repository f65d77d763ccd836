"""What the tests of all three trainers share: an agent, a cable, a model, documented lines."""

from __future__ import annotations

import os
import re
import subprocess
import threading
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from client.states import HandAgent
from linkhold.client import listener
from linkhold.client.agreement import cadence
from support import netns

if TYPE_CHECKING:
    from collections.abc import Iterator

    from linkhold.client import Hold

DOWN: dict[str, Any] = {
    "network": "down",
    "holds": ["network"],
    "uploads": "hold",
    "cause": ("eth0 lost carrier",),
}
BATTERY = {"checkpoint": {"id": "power-1", "reason": "on battery"}}
STOP = {
    "checkpoint": {"id": "spot-1", "reason": "spot notice: terminate"},
    "stop": {"id": "spot-1", "reason": "spot notice: terminate"},
}
DOCS = Path(__file__).resolve().parents[2] / "docs/trainers.md"


class Numbers(torch.utils.data.Dataset[Any]):
    """48 samples that are what their index says."""

    def __len__(self) -> int:
        return 48

    def __getitem__(self, index: int) -> Any:
        x = torch.sin(torch.arange(4, dtype=torch.float32) + index)
        return {"x": x, "labels": x.sum().unsqueeze(0)}


def values(found: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return what the ranks returned; all must have ended well."""
    assert [rank["code"] for rank in found] == [0] * len(found), [
        (rank["error"], rank.get("trace")) for rank in found
    ]
    return [rank["value"] for rank in found]


def quicken() -> None:
    """Let this process, a rank, hear of a state at once.

    Ranks agree at each step: what an agent says after one step is done at the next. The state file
    is looked at more often than in real life.
    """
    cadence.LONGEST_US = 1
    listener.WAIT_ALONE_S = listener.WAIT_NOBODY_S = 0.05


class Net(torch.nn.Module):
    """A small network; dropout makes its losses depend on the random numbers."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = torch.nn.Sequential(
            torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Dropout(0.3), torch.nn.Linear(8, 1)
        )

    def forward(self, x: torch.Tensor, labels: torch.Tensor) -> dict[str, torch.Tensor]:
        found = self.layers(x)
        return {"loss": ((found - labels) ** 2).mean(), "logits": found}


class Scene:
    """One rank's node: its agent, its cable, and what happened at which step.

    ``script`` tells what the agent says after a step: ``{"12": {...}}``; only ranks named in
    ``speakers`` have such an agent, the others' nodes are well.
    """

    def __init__(self, rank: int, folder: Path, script: dict[str, Any] | None = None) -> None:
        quicken()
        # torch.distributed is there already; accelerate looks at the names all the same.
        os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT="1", ACCELERATE_USE_CPU="1")
        self.run_dir = folder / f"run{rank}"
        self.run_dir.mkdir(exist_ok=True)
        self.agent = HandAgent(self.run_dir)
        self.agent.epoch = int(time.monotonic_ns() // 1_000_000)  # runs follow one another
        self.agent.say(by_broker=False)
        self.losses: dict[int, float] = {}
        self.held_at: list[int] = []
        self.evaluated: list[int] = []
        self.saved: list[int] = []
        self.longest_s = 0.0
        self.hold: Hold | None = None
        self._script = script or {}
        self._last_s = 0.0
        self._held_s = 0.0

    def after(self, step: int, loss: float, hold: Hold) -> None:
        """Note a step, and let the agent say what the script tells."""
        self.hold = hold
        now_s = time.monotonic()
        if self._last_s:
            self.longest_s = max(self.longest_s, now_s - self._last_s)
        self._last_s = now_s
        self.losses[step] = loss
        if hold.held_s != self._held_s:
            self._held_s = hold.held_s
            self.held_at.append(step)
        fields = self._script.get(str(step))
        if fields is not None:
            self.say(hold, **fields)

    def say(self, hold: Hold, **fields: Any) -> None:
        """Let the agent say something, and wait until the Hold has heard it."""
        self.agent.say(by_broker=False, **fields)
        end_s = time.monotonic() + 10
        while getattr(hold._source.newest, "epoch", None) != self.agent.epoch:
            assert time.monotonic() < end_s, "the Hold hears nothing"
            time.sleep(0.01)

    def pull(self, seconds: float, hold: Hold) -> None:
        """Pull the cable; it comes back by itself, and the agent says so once there is a hold."""
        subprocess.run(["ip", "link", "set", "eth0", "down"], check=True)
        self.agent.say(by_broker=False, **DOWN)

        def back() -> None:
            time.sleep(seconds)
            subprocess.run(["ip", "link", "set", "eth0", "up"], check=True)
            end_s = time.monotonic() + 15
            while hold.waiting_for is None and time.monotonic() < end_s:
                time.sleep(0.02)
            self.agent.say(by_broker=False)

        threading.Thread(target=back, daemon=True).start()

    def told(self, **more: Any) -> dict[str, Any]:
        """Return what a test looks at."""
        names = ("losses", "held_at", "evaluated", "saved", "longest_s")
        return {name: getattr(self, name) for name in names} | more


def documented(package: str) -> str:
    """Return the code block of docs/trainers.md that begins with the import of an adapter."""
    text = DOCS.read_text(encoding="utf-8")
    found = re.search(
        rf"```python\n(from linkhold\.client\.{package} import.*?)```", text, re.DOTALL
    )
    assert found, f"docs/trainers.md shows no lines for {package}"
    return found[1]


@contextmanager
def two_nodes() -> Iterator[dict[str, Any]]:
    """Two namespaces with a cable between them, as arguments of a job of two ranks."""
    with netns.Namespace() as one, netns.Namespace() as two:
        one.veth("eth0", "eth0", other=two)
        one.ip("addr add 10.0.0.1/24 dev eth0")
        two.ip("addr add 10.0.0.2/24 dev eth0")
        yield {
            "namespaces": [one.path, two.path],
            "env": {"GLOO_SOCKET_IFNAME": "eth0"},
        }


def merged(*runs: dict[str, Any]) -> dict[str, float]:
    """Return the losses of runs that followed one another, by step."""
    return {step: loss for run in runs for step, loss in run["losses"].items()}
