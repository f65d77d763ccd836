"""What gives a training process away: its command, its environment, the devices it has open. Pure.

The variables are those that torchrun, Open MPI, Slurm and PMI hand to the processes they start
(torch.distributed.elastic.agent.server.local_elastic_agent, ompi's mca/ess, srun(1)).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

TORCHRUN, ACCELERATE, DEEPSPEED = "torchrun", "accelerate", "deepspeed"
MPIRUN, SRUN, HOROVODRUN = "mpirun", "srun", "horovodrun"
OUR_TORCHRUN = "linkhold.client.torchrun"
"""The module that is torchrun with another exit code and another patience."""
GENERAL = frozenset({MPIRUN, SRUN})
"""Launchers of anything: they count only when something that trains is below them."""
DATA_WORKER = "pt_data_worker"
"""The name of a DataLoader's worker (torch/utils/data/_utils/worker.py)."""

_LAUNCHERS = {
    **dict.fromkeys(("torchrun", "torch.distributed.run", "torch.distributed.launch"), TORCHRUN),
    OUR_TORCHRUN: TORCHRUN,
    **dict.fromkeys(("accelerate-launch", "accelerate.commands.launch"), ACCELERATE),
    **dict.fromkeys(
        ("deepspeed", "ds", "deepspeed.launcher.runner", "deepspeed.launcher.launch"), DEEPSPEED
    ),
    **dict.fromkeys(("mpirun", "mpiexec", "mpiexec.hydra", "orterun", "prterun"), MPIRUN),
    "srun": SRUN,
    "horovodrun": HOROVODRUN,
}
_TORCH_FILES = re.compile(r"(?:^|/)torch/distributed/(?:run|launch)\.py$")
_ACCELERATE = frozenset({"accelerate", "accelerate.commands.accelerate_cli"})
_MODULES = (
    "axolotl.", "composer.", "deepspeed.", "lightning.", "llamafactory.", "megatron.", "torch.",
    "torchtitan.", "torchtune.",
)  # fmt: skip
"""Packages whose modules are run to train."""
_PYTHON = re.compile(r"(?:python|pypy)[0-9.]*[a-z]?")
_TAKES_NEXT = re.compile(r"-[bBdEhiIOPqRsSuvVx]*([mcXW])")
_HELPERS = ("multiprocessing.resource_tracker", "multiprocessing.forkserver")
_TOOLS = frozenset({
    "bash", "cat", "containerd-shim-runc-v2", "dash", "docker", "dumb-init", "env", "fish", "gdb",
    "git", "grep", "ksh", "less", "py-spy", "screen", "script", "sh", "sleep", "slurmstepd", "ssh",
    "sshd", "su", "sudo", "systemd-run", "tail", "tcsh", "tee", "timeout", "tini", "tmux", "watch",
    "zsh",
})  # fmt: skip
"""Programs that inherit or hand on a job's environment and do not train themselves."""
_TESTERS = frozenset({"py.test", "pytest", "unittest"})
"""Programs that load PyTorch because it is what they test."""
_TEST_WORKER = "import sys;exec(eval(sys.stdin.readline()))"
"""Code of a worker of pytest-xdist (execnet/gateway_io.py)."""
_GPU_TOOLS = frozenset({
    "Xorg", "Xwayland", "dcgm-exporter", "gnome-shell", "gpud", "kwin_wayland", "nv-fabricmanager",
    "nv-hostengine", "nvidia-persistenced", "nvidia-smi", "nvitop", "nvtop", "rocm-smi",
})  # fmt: skip
_GPU = re.compile(r"/dev/(?:nvidia\d+|kfd|davinci\d+)")
"""Not /dev/dri/renderD*: every desktop program has it open, training never has it alone."""
MOST_KEPT = 16 << 10
_KEPT_PREFIXES = (
    "TORCH_", "TORCHELASTIC_", "NCCL_", "GLOO_", "PET_", "OMPI_COMM_WORLD_", "PMI_",
)  # fmt: skip
_KEPT = frozenset({
    "RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "GROUP_RANK", "ROLE_RANK",
    "MASTER_ADDR", "MASTER_PORT", "CUDA_VISIBLE_DEVICES", "PMIX_RANK", "DEEPSPEED_TIMEOUT",
    "SLURM_JOB_ID", "SLURM_PROCID", "SLURM_LOCALID", "SLURM_NODEID", "SLURM_NNODES",
    "SLURM_NTASKS", "AWS_MAX_ATTEMPTS", "AWS_RETRY_MODE", "AWS_METADATA_SERVICE_TIMEOUT",
    "AWS_METADATA_SERVICE_NUM_ATTEMPTS", "HF_HUB_DOWNLOAD_TIMEOUT", "HF_HUB_ETAG_TIMEOUT",
    "MLFLOW_HTTP_REQUEST_TIMEOUT", "MLFLOW_HTTP_REQUEST_MAX_RETRIES", "WANDB_HTTP_TIMEOUT",
    "WANDB_INIT_TIMEOUT",
})  # fmt: skip
_SECRET = re.compile(r"TOKEN|SECRET|PASSW|KEY|CREDENTIAL|AUTH")
_NEAR = {
    "MASTER_ADDR": "MASTER_ADDR",
    "OMPI_COMM_WORLD_RANK": "Open MPI's rank",
    "SLURM_PROCID": "SLURM_PROCID",
    "PMI_RANK": "PMI_RANK",
    "PMIX_RANK": "PMIX_RANK",
}
"""Variables that other programs have too: they count for a Python program."""
MARKERS = tuple(name.encode() + b"=" for name in ("RANK", "TORCHELASTIC_RUN_ID", *_NEAR))
"""One of these is in every environment that gives a process away."""


@dataclass(frozen=True, slots=True)
class Program:
    """What a command line runs: a script, a module or a binary, with its arguments.

    ``name`` is a path for a script and a binary; empty for code on the command line.
    """

    name: str = ""
    python: bool = False
    code: str = ""
    arguments: tuple[str, ...] = ()

    @property
    def short(self) -> str:
        """The name without its folder; ``python`` for code."""
        return self.name.rpartition("/")[2] or "python"


def program(words: Sequence[str]) -> Program:
    """Return what a command line runs; options of the Python interpreter are passed over."""
    if not words:
        return Program()
    if not _PYTHON.fullmatch(words[0].rpartition("/")[2]):
        return Program(words[0], arguments=tuple(words[1:]))
    at = 1
    while at < len(words):
        word = words[at]
        match = _TAKES_NEXT.fullmatch(word)
        following = words[at + 1] if at + 1 < len(words) else ""
        if match and match[1] == "m":
            return Program(following, True, arguments=tuple(words[at + 2 :]))
        if match and match[1] == "c":
            return Program("", True, following, tuple(words[at + 2 :]))
        if not word.startswith("-") or word == "-":
            return Program(word.removeprefix("-"), True, arguments=tuple(words[at + 1 :]))
        at += 2 if match else 1
    return Program("", True)


def launcher(words: Sequence[str]) -> str:
    """Return which launcher a command line is, empty for none."""
    what = program(words)
    if what.short in _ACCELERATE or what.name in _ACCELERATE:
        return ACCELERATE if "launch" in what.arguments[:1] else ""
    if _TORCH_FILES.search(what.name):
        return TORCHRUN
    return _LAUNCHERS.get(what.name) or _LAUNCHERS.get(what.short, "")


def evidence(words: Sequence[str], env: Mapping[str, str]) -> tuple[str, ...]:
    """Return in words what of command and environment shows that a process trains."""
    name = launcher(words)
    if name:
        return () if name in GENERAL else (f"command {name}",)
    what = program(words)
    found = []
    if what.python and what.name.startswith(_MODULES):
        found.append(f"module {what.name}")
    if what.short in _TOOLS or not words:
        return ()
    if "RANK" in env and "WORLD_SIZE" in env:
        found.append("RANK and WORLD_SIZE")
    if "TORCHELASTIC_RUN_ID" in env:
        found.append("started by torchrun")
    if what.python:
        found += [text for key, text in _NEAR.items() if key in env]
    return tuple(found)


def devices(paths: Iterable[str], comm: str) -> tuple[str, ...]:
    """Return the GPUs among the paths that a process has open; none for a tool that looks at them.

    ``comm`` is its name.
    """
    return () if comm in _GPU_TOOLS else tuple(sorted({p for p in paths if _GPU.fullmatch(p)}))


def kept(variables: Iterable[tuple[str, str]]) -> dict[str, str]:
    """Return of an environment what training is configured by, and nothing that may be secret.

    What is beyond :data:`MOST_KEPT` characters is left out: whoever runs a process chooses them.
    """
    found, room = {}, MOST_KEPT
    for key, value in variables:
        size = len(key) + len(value)
        wanted = key in _KEPT or key.startswith(_KEPT_PREFIXES)
        if wanted and size <= room and not _SECRET.search(key):
            found[key] = value
            room -= size
    return found


def option(words: Sequence[str], *names: str) -> str | None:
    """Return the value of the first of these options on a command line, None without it.

    ``-`` and ``_`` within a name are the same to torchrun and many scripts; ``--name=value`` and
    ``--name value`` are to all. Of an option that is repeated the last counts (argparse).
    """
    wanted = {name.replace("_", "-") for name in names}
    found = None
    for word, following in zip(words, (*words[1:], ""), strict=False):
        name, equals, value = word.partition("=")
        if name.startswith("-") and name.replace("_", "-") in wanted:
            found = value if equals else following
    return found


def is_tester(words: Sequence[str]) -> bool:
    """Whether this runs tests: what it loads, and what it is told, says nothing of training."""
    what = program(words)
    return what.short in _TESTERS or what.code.startswith(_TEST_WORKER)


def is_helper(words: Sequence[str]) -> bool:
    """Whether this is one of the processes that Python's multiprocessing keeps for itself."""
    code = program(words).code
    return any(f"from {module} import" in code for module in _HELPERS)
