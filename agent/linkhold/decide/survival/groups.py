"""What process groups and NCCL give up. Pure.

Defaults: torch/csrc/distributed/c10d (Types.hpp, ProcessGroupNCCL.hpp) of torch 2.13, and NCCL's
manual, "Environment Variables" (NCCL_IB_TIMEOUT is 20 since 2.23).
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

from linkhold.decide.survival.kernel import infiniband_for, infiniband_s
from linkhold.decide.survival.values import (
    Effect,
    Layer,
    Setting,
    argument,
    number_of,
    raised,
    variable,
    where_of,
)
from linkhold.decide.training import marks

if TYPE_CHECKING:
    from collections.abc import Iterator

    from linkhold.decide.survival.values import JobFacts
    from linkhold.model.jobs import TrainingProcess

NCCL, GLOO, HCCL = "nccl", "gloo", "hccl"
NCCL_S, OTHER_S = 600.0, 1800.0
HEARTBEAT_S = 480.0
IB_TIMEOUT, IB_RETRIES = 20, 7
CONNECT_TRIES, CONNECT_SLEEP_MS = 34, 100
UNCLEAR = "--timeout"
"""It may be about anything: it counts where there is a process group for sure, with a note."""
TIMEOUTS = {
    "--ddp_timeout": 1.0,  # Hugging Face Trainer
    "--distributed-timeout-minutes": 60.0,  # Megatron-LM
    "--comm.train_timeout_seconds": 1.0,  # torchtitan
    "--dist_timeout": 1.0,
    "--nccl_timeout": 1.0,
    "--pg_timeout": 1.0,
    UNCLEAR: 1.0,
}
"""Arguments of well-known trainers that become the timeout of the process group; in seconds."""
BACKENDS = ("--ddp_backend", "--distributed-backend", "--dist_backend", "--backend")
_GROUP_SOURCE = "kBackendDefaultTimeout in torch/csrc/distributed/c10d/Backend.hpp"
_NCCL_SOURCE = "torch/csrc/distributed/c10d/ProcessGroupNCCL.hpp"
_IB_SOURCE = "NCCL's manual, NCCL_IB_TIMEOUT: 4.096 us x 2^timeout x retries"
_GROUP_HOW = (
    "timeout=timedelta(seconds={0:.0f}) of init_process_group() and every new_group(); "
    "--ddp_timeout {0:.0f} of the Hugging Face Trainer"
)


def backend(facts: JobFacts) -> tuple[str, str]:
    """Return the backend of the process group and how that is known."""
    given = argument(facts, *BACKENDS)
    if given is not None and given.text:
        return given.text.lower().rpartition(":")[2], given.where
    if any(path.startswith(("/dev/nvidia", "/dev/kfd")) for path in facts.files):
        return NCCL, "a GPU is open"
    if any(path.startswith("/dev/davinci") for path in facts.files):
        return HCCL, "an NPU is open"
    return GLOO, "no GPU is open"


def group_layers(facts: JobFacts, aim_s: float) -> Iterator[Layer]:
    """Yield the times after which a collective operation that stalls ends the run."""
    sizes = {rank.env["WORLD_SIZE"] for rank in facts.ranks if "WORLD_SIZE" in rank.env}
    if sizes == {"1"}:
        return
    kind, why = backend(facts)
    yield _group(facts, kind, why, aim_s)
    if kind != NCCL:
        return
    heartbeat = _heartbeat(facts, aim_s)
    if heartbeat is not None:
        yield heartbeat
    if _uses_infiniband(facts):
        yield _infiniband(facts, aim_s)
    yield _connects(facts, aim_s)


def _group(facts: JobFacts, kind: str, why: str, aim_s: float) -> Layer:
    setting = _given_timeout(facts)
    default_s = NCCL_S if kind == NCCL else OTHER_S
    outage_s = number_of(setting, default_s)
    if kind == NCCL and _unhandled(facts):
        where = "TORCH_NCCL_ASYNC_ERROR_HANDLING=0: nothing ends an operation that hangs"
        return Layer(f"process group ({kind})", math.inf, "none", where, "", _NCCL_SOURCE)
    return Layer(
        f"process group ({kind})",
        outage_s,
        f"timeout {outage_s:g} s",
        where_of(setting, f"default of {kind} ({why})"),
        _GROUP_HOW.format(raised(outage_s, aim_s)),
        _GROUP_SOURCE,
        note=_group_note(setting),
    )


def _group_note(setting: Setting | None) -> str:
    if setting is None:
        return "a timeout that the script itself gives is not seen from outside"
    if f" {UNCLEAR} " in setting.where:
        return f"if {UNCLEAR} of the script is about the process group, as in many it is"
    return ""


def _given_timeout(facts: JobFacts) -> Setting | None:
    certain = replace(facts, processes=tuple(one for one in facts.processes if _is_member(one)))
    for name, unit_s in TIMEOUTS.items():
        found = argument(certain if name == UNCLEAR else facts, name)
        number = None if found is None else found.number()
        if found is not None and number is not None and number > 0:
            return Setting(f"{number * unit_s:g}", found.where)
    if any(marks.launcher(one.words) == marks.DEEPSPEED for one in facts.launchers):
        minutes = variable(facts, "DEEPSPEED_TIMEOUT")
        return Setting(
            f"{60 * number_of(minutes, 30):g}", where_of(minutes, "default of DeepSpeed")
        )
    return None


def _is_member(process: TrainingProcess) -> bool:
    """Whether a process was told of its group, and its arguments are those of a training."""
    return "WORLD_SIZE" in process.env and not marks.is_tester(process.words)


def _unhandled(facts: JobFacts) -> bool:
    """Whether nobody looks after operations that time out."""
    handling = variable(facts, "TORCH_NCCL_ASYNC_ERROR_HANDLING", "NCCL_ASYNC_ERROR_HANDLING")
    blocking = variable(facts, "TORCH_NCCL_BLOCKING_WAIT", "NCCL_BLOCKING_WAIT")
    return number_of(handling, 3) == 0 and number_of(blocking, 0) == 0


def _heartbeat(facts: JobFacts, aim_s: float) -> Layer | None:
    if number_of(variable(facts, "TORCH_NCCL_ENABLE_MONITORING"), 1) == 0:
        return None
    setting = variable(facts, "TORCH_NCCL_HEARTBEAT_TIMEOUT_SEC")
    outage_s = number_of(setting, HEARTBEAT_S)
    return Layer(
        "watchdog of NCCL's process group",
        outage_s,
        f"TORCH_NCCL_HEARTBEAT_TIMEOUT_SEC={outage_s:g}",
        where_of(setting, "default"),
        f"TORCH_NCCL_HEARTBEAT_TIMEOUT_SEC={raised(outage_s, max(aim_s, 1800)):.0f}",
        _NCCL_SOURCE,
        note="when its thread is stuck, by a storage stall that holds the GIL for example",
    )


def _uses_infiniband(facts: JobFacts) -> bool:
    if number_of(variable(facts, "NCCL_IB_DISABLE"), 0) == 1:
        return False
    net = variable(facts, "NCCL_NET")
    if net is not None and net.text.lower() == "socket":
        return False
    is_open = any(path.startswith("/dev/infiniband/uverbs") for path in facts.files)
    return (
        is_open
        or variable(facts, "NCCL_IB_TIMEOUT", "NCCL_IB_RETRY_CNT", "NCCL_IB_HCA") is not None
    )


def _infiniband(facts: JobFacts, aim_s: float) -> Layer:
    timeout = variable(facts, "NCCL_IB_TIMEOUT")
    retry = variable(facts, "NCCL_IB_RETRY_CNT")
    exponent, retries = int(number_of(timeout, IB_TIMEOUT)), int(number_of(retry, IB_RETRIES))
    outage_s = infiniband_s(exponent, retries)
    wanted = infiniband_for(raised(outage_s, aim_s), retries)
    return Layer(
        "NCCL over InfiniBand or RoCE",
        outage_s,
        f"NCCL_IB_TIMEOUT={exponent}, NCCL_IB_RETRY_CNT={retries}",
        where_of(timeout, where_of(retry, "default since NCCL 2.23")),
        f"NCCL_IB_TIMEOUT={wanted or 31}" + ("" if wanted else " NCCL_IB_RETRY_CNT=7"),
        _IB_SOURCE,
    )


def _connects(facts: JobFacts, aim_s: float) -> Layer:
    """Return how long NCCL tries to connect: each pause is one unit longer than the last."""
    tries = variable(facts, "NCCL_SOCKET_RETRY_CNT")
    sleep = variable(facts, "NCCL_SOCKET_RETRY_SLEEP_MSEC")
    count = int(number_of(tries, CONNECT_TRIES))
    sleep_ms = number_of(sleep, CONNECT_SLEEP_MS)
    outage_s = count * (count + 1) / 2 * sleep_ms / 1000
    most = raised(outage_s, aim_s)
    wanted = math.ceil((math.sqrt(1 + 8000 * most / max(1.0, sleep_ms)) - 1) / 2)
    return Layer(
        "NCCL connecting",
        outage_s,
        f"NCCL_SOCKET_RETRY_CNT={count}, NCCL_SOCKET_RETRY_SLEEP_MSEC={sleep_ms:g}",
        where_of(tries, where_of(sleep, "default")),
        f"NCCL_SOCKET_RETRY_CNT={wanted}",
        "NCCL's manual, NCCL_SOCKET_RETRY_CNT",
        Effect.STARTS,
    )
