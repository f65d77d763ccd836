"""What stands around the Python of a page, so that it runs: names of the reader's own program.

``COMMON`` is there for every block; a scene adds to it. What a scene exchanges is what a test
machine does not have (NCCL, a bucket) or what the page leaves out on purpose (``...``).
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

COMMON = """\
import inspect, pathlib
from linkhold.client import Hold
import linkhold.client.fake

real_connect = Hold.connect
def fake_connect(*args, **named):
    inspect.signature(real_connect).bind(*args, **named)  # the page calls it as it is
    return asked()
Hold.connect = fake_connect

def asked():
    fake = Hold.fake(checkpoint="on battery")
    fake.step(0)
    return fake
hold = asked()
steps, saved, pushed = [], [], []
step, path, loader, state = 1, "ckpt.pt", [1, 2, 3], {}
def train(batch): steps.append(batch)
def save(name): saved.append(pathlib.Path(name).write_bytes(b"weights"))
def push(name): pushed.append(pathlib.Path(name).read_bytes())
save("ckpt.pt")
saved.clear()
"""
LOOP = "assert steps == [1, 2, 3], steps"
SAVED = "assert len(saved) == 1"
MODEL = """\
import torch
class Numbers(torch.utils.data.Dataset):
    def __len__(self): return 8
    def __getitem__(self, n): return {"x": torch.full((2,), float(n)), "y": torch.tensor([1.0])}
class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(2, 1)
    def forward(self, x, y):
        return {"loss": torch.nn.functional.mse_loss(self.layer(x), y)}
"""
LIGHTNING = """\
import lightning.pytorch as pl
from lightning.pytorch import Trainer
class Model(pl.LightningModule):
    def __init__(self):
        super().__init__()
        self.net = Net()
    def training_step(self, batch, _): return self.net(**batch)["loss"]
    def configure_optimizers(self): return torch.optim.SGD(self.parameters(), lr=0.1)
model = Model()
loader = torch.utils.data.DataLoader(Numbers(), 4)
quick = dict(accelerator="cpu", max_epochs=1, logger=False, enable_progress_bar=False,
             enable_model_summary=False, enable_checkpointing=False)
"""
TRANSFORMERS = """\
from transformers import Trainer, TrainingArguments
quick = dict(model=Net(), train_dataset=Numbers(), args=TrainingArguments(
    "out", max_steps=2, use_cpu=True, report_to=[], disable_tqdm=True, save_steps=1))
pathlib.Path("out").mkdir(exist_ok=True)
"""
ACCELERATE = """\
from accelerate import Accelerator
accelerator = Accelerator(cpu=True)
model, optimizer, loader = accelerator.prepare(
    Net(), (net := Net()) and torch.optim.SGD(net.parameters(), lr=0.1),
    torch.utils.data.DataLoader(Numbers(), 4))
"""
ONE_RANK = """\
import os
from datetime import timedelta
import torch.distributed as dist
os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT="0", RANK="0", WORLD_SIZE="1")
Hold.connect = real_connect
"""
RETRIES = """\
def log_metrics(): steps.append("logged")
async def upload(name): push(name)
"""


@dataclass(frozen=True)
class Scene:
    """``before`` and ``after`` stand around a block in which ``exchange`` was done.

    ``code`` is the exit code that is right.
    """

    before: str = ""
    after: str = ""
    exchange: Mapping[str, str] = field(default_factory=dict)
    code: int = 0


@dataclass(frozen=True)
class Program:
    """A whole program, and the exit code with which it ends when all is well."""

    text: str
    code: int


SCENES = {
    r"linkhold.client.lightning": Scene(
        MODEL + LIGHTNING,
        "assert trainer.global_step == 2",
        {"Trainer(...,": "Trainer(**quick,"},
    ),
    r"linkhold.client.transformers": Scene(
        MODEL + TRANSFORMERS,
        "assert trainer.state.global_step == 2 and newest_checkpoint('out')",
        {"Trainer(...,": "Trainer(**quick,"},
    ),
    r"linkhold.client.accelerate": Scene(
        MODEL + ACCELERATE, "assert len(steps) == 6 and hold.steps == 6"
    ),
    r"check_trigger": Scene(
        MODEL + ACCELERATE + "from linkhold.client.accelerate import Trigger\n"
        "hold = Trigger(accelerator, hold=asked())\n"
        "model(**next(iter(loader)))['loss'].backward()\noptimizer.step()\n",
        "assert pathlib.Path('state').is_dir()",
        {"save_state(...)": "save_state('state')"},
    ),
    r"init_process_group": Scene(
        ONE_RANK,
        "dist.destroy_process_group()",
        {'"nccl"': '"gloo"', "    ...": "    hold.step(1)"},
    ),
    r"suggest_loader": Scene(
        MODEL + "from torch.utils.data import DataLoader\ndataset = Numbers()\n",
        "assert len(list(loader)) == 1",
    ),
    r"hold\.data\(": Scene(
        MODEL + "from torch.utils.data import DataLoader\ndataset = Numbers()\n",
        "assert loader.delivered == 1",
        {"num_workers=4": "num_workers=0"},
    ),
    r"client\.retry": Scene(RETRIES, "assert pushed == [b'weights'] and steps == ['logged']"),
    r"upload_to\(": Scene(
        "import torch\n",
        "assert hold.numbers.uploads == 1",
        {"s3://": "memory://"},
    ),
    r"hold\.uploading": Scene(
        "class trainer:\n    push_to_hub = staticmethod(lambda: push(path))\n",
        "assert pushed == [b'weights']",
    ),
    r"GiveUp": Scene(
        "hold = Hold.fake(hold_on=['network'], max_hold_s=1, network='down', training='hold')\n",
        "raise SystemExit('the hold had no end')",
        code=75,
    ),
    r"enumerate\(loader\)(?s:.*)checkpoint_due": Scene("", f"{LOOP}\n{SAVED}"),
    r"enumerate\(loader\)": Scene("", LOOP),
    r"resume_uploads|Hold\.connect\(\)": Scene(),
}
"""What a block needs, by what is found in it; the first that is found counts."""


def program(block: str) -> Program | None:
    """Return a whole program around a block, None where no scene fits."""
    scene = next((one for form, one in SCENES.items() if re.search(form, block)), None)
    if scene is None:
        return None
    text = block
    for page, here in scene.exchange.items():
        assert page in text, f"the scene exchanges {page!r}, which the block has no more"
        text = text.replace(page, here)
    if "async for" in text or "await " in text:
        text = _in_a_coroutine(text)
    return Program(f"{COMMON}{scene.before}\n{text}\n{scene.after}\n", scene.code)


def _in_a_coroutine(text: str) -> str:
    body = "\n".join(f"    {line}" for line in text.splitlines())
    return f"import asyncio\nasync def main():\n{body}\nasyncio.run(main())"
