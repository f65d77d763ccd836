"""Which outage a job survives: the kernel's formula, and what arguments and environment set."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from linkhold.decide.survival import BondFacts, Effect, JobFacts, Layer, budget, sentence
from linkhold.decide.survival.kernel import (
    QUICK,
    infiniband_for,
    infiniband_s,
    model_timeout_s,
    retries_for,
)
from linkhold.model.jobs import TrainingProcess

if TYPE_CHECKING:
    from collections.abc import Mapping

SYSCTLS = {
    "tcp_retries2": 15,
    "tcp_rto_max_ms": 120_000,
    "tcp_keepalive_time": 7200,
    "tcp_keepalive_intvl": 75,
    "tcp_keepalive_probes": 9,
}
C10D = "python torchrun --nnodes 2 --rdzv_backend c10d --rdzv_endpoint 10.0.0.1:29500 {} train.py"
STORE = "torchrun's rendezvous store"
IB = "NCCL over InfiniBand or RoCE"
GPU = frozenset({"/dev/nvidia0", "/dev/nvidiactl"})
RANK = {"RANK": "0", "WORLD_SIZE": "16", "LOCAL_WORLD_SIZE": "8"}


def job(
    launch: str = "",
    *,
    arguments: str = "",
    env: Mapping[str, str] = RANK,
    launch_env: Mapping[str, str] | None = None,
    **more: Any,
) -> JobFacts:
    """A job of one rank, below a launcher when there is a command line for one."""
    rank = TrainingProcess(2, 20, 0, "python", tuple(f"python train.py {arguments}".split()), env)
    first = TrainingProcess(
        1, 10, 0, "torchrun", tuple(launch.split()), launch_env or {}, is_launcher=True
    )
    processes = (first, rank) if launch else (rank,)
    return JobFacts("train.py@1", processes, **{"sysctls": SYSCTLS, **more})


def layer(facts: JobFacts, name: str) -> Layer:
    """The layer of this name, which is there once."""
    (found,) = (one for one in budget(facts).layers if one.name.startswith(name))
    return found


@pytest.mark.parametrize(
    ("retries", "rto_max_ms", "timeout_s"),
    [(15, 120_000, 924.6), (8, 120_000, 102.2), (15, 2000, 27.0), (255, 2000, 507.0),
     (255, 5000, 1261.2), (0, 120_000, 0.2), (15, 200, 3.2)],
)  # fmt: skip
def test_data_in_flight_is_given_up_as_the_kernel_does(
    retries: int, rto_max_ms: int, timeout_s: float
) -> None:
    """tcp_retries2 by tcp_model_timeout(): ip-sysctl's 924.6 s, and what facts/trainer.md has."""
    assert model_timeout_s(retries, rto_max_ms) == pytest.approx(timeout_s)


@pytest.mark.parametrize(
    ("rto_max_ms", "said"),
    [
        (120_000, "busy: {tcp_rto_max_ms: 2500, tcp_retries2: 255}"),
        (3000, "up to 3 s later"),
        (None, "kernels from 6.15"),
        (2500, ""),
        (1000, ""),
    ],
)
def test_a_late_resumption_is_said(rto_max_ms: int | None, said: str) -> None:
    """How late TCP goes on after an outage stands beside what it survives, with what helps."""
    values = {**SYSCTLS, "tcp_rto_max_ms": rto_max_ms}
    sysctls = {key: value for key, value in values.items() if value is not None}
    note = layer(job(sysctls=sysctls), "TCP with data in flight").note

    assert said in note
    assert bool(said) is bool(note)


def test_the_advice_is_that_of_the_documents_and_of_the_bench() -> None:
    """One pair of values is advised, documented and measured."""
    busy = "busy: {" + ", ".join(f"{key}: {value}" for key, value in QUICK.items()) + "}"
    tops = Path(__file__).resolve().parents[2]

    for name in ("docs/survive.md", "docs/keepalive.md", "tests/bench/interruptions_run.py"):
        assert busy in (tops / name).read_text(), name


@given(outage_s=st.floats(1, 20_000), rto_max_ms=st.sampled_from([1000, 2000, 120_000]))
def test_the_advised_retries_are_the_least_that_do(outage_s: float, rto_max_ms: int) -> None:
    """retries_for: that many survive, one less does not; None when not even 255 do."""
    found = retries_for(outage_s, rto_max_ms)

    if found is None:
        assert model_timeout_s(255, rto_max_ms) < outage_s
    else:
        assert model_timeout_s(found, rto_max_ms) >= outage_s
        assert found == 0 or model_timeout_s(found - 1, rto_max_ms) < outage_s


def test_infiniband_retries_by_its_formula() -> None:
    """4.096 us x 2^timeout x retries: 30 s by default, 120 s with 22, for ever with 0."""
    assert infiniband_s(20, 7) == pytest.approx(30.06, abs=0.01)
    assert infiniband_s(22, 7) == pytest.approx(120.26, abs=0.01)
    assert infiniband_s(0, 7) == math.inf
    assert infiniband_for(100, 7) == 22
    assert infiniband_for(60, 0) is None


def test_the_store_of_torchrun_gives_up_first() -> None:
    """c10d: read_timeout 60 by default, and the sentence says what ends the job and what helps."""
    facts = job(C10D.format(""))

    assert sentence(budget(facts)) == (
        "job train.py@1 survives an outage of 60 s: then torchrun's rendezvous store gives up "
        "(read_timeout=60, default); raise it with --rdzv_conf read_timeout=900"
    )


@pytest.mark.parametrize(
    ("given", "env", "outage_s", "where"),
    [
        ("--rdzv_conf read_timeout=900", {}, 900, "argument --rdzv_conf of process 1"),
        ("--rdzv-conf=is_host=1,read_timeout=120", {}, 120, "argument --rdzv_conf of process 1"),
        ("", {"PET_RDZV_CONF": "read_timeout=300"}, 300, "PET_RDZV_CONF in the environment"),
        ("--rdzv_conf join_timeout=5", {"PET_RDZV_CONF": "read_timeout=300"}, 60, "default"),
        ("--rdzv_conf read_timeout=soon", {}, 60, "default"),
    ],
)
def test_read_timeout_is_found_where_torchrun_looks(
    given: str, env: dict[str, str], outage_s: float, where: str
) -> None:
    """In --rdzv_conf, written either way; in PET_RDZV_CONF without it; nonsense is no value."""
    found = layer(job(C10D.format(given), launch_env=env), STORE)

    assert found.outage_s == outage_s
    assert found.where.startswith(where)


def test_advice_keeps_what_else_was_given() -> None:
    """--rdzv_conf is replaced as a whole, so the advice repeats the other pairs."""
    found = layer(job(C10D.format("--rdzv_conf is_host=1")), STORE)

    assert found.how == "--rdzv_conf is_host=1,read_timeout=900"


def test_arguments_of_the_script_are_not_the_launchers() -> None:
    """What follows the script belongs to it, though it may have the same name."""
    facts = job(C10D.format("") + " --rdzv_conf read_timeout=900 --max_restarts 7")

    assert layer(facts, STORE).outage_s == 60
    assert "--max_restarts)" not in budget(facts).warnings[0]


def test_a_static_rendezvous_asks_no_store() -> None:
    """Without --rdzv_backend torchrun is static: num_nodes_waiting() is 0 and never asks."""
    facts = job("python torchrun --nnodes 2 --master_addr 10.0.0.1 train.py")

    assert STORE not in {one.name for one in budget(facts).layers}


@pytest.mark.parametrize("launch", [C10D, "python accelerate launch {} train.py"])
def test_hidden_exit_codes_are_warned_of(launch: str) -> None:
    """What is torchrun or built on it turns 75 into 1, and starts again where it may."""
    once = budget(job(launch.format(""))).warnings[0]
    again = budget(job(launch.format("--max-restarts 3"))).warnings[0]

    assert "75" in once
    assert "up to 3 times" in again
    assert budget(job()).warnings == ()


def test_our_own_torchrun_hides_nothing_and_waits_longer() -> None:
    """linkhold.client.torchrun keeps exit code 75, and sets read_timeout where nobody else does."""
    ours = C10D.replace("torchrun", "-m linkhold.client.torchrun", 1)
    facts = job(ours.format(""))
    given = job(ours.format("--rdzv_conf read_timeout=70"))

    assert budget(facts).warnings == ()
    assert (layer(facts, STORE).outage_s, layer(given, STORE).outage_s) == (900, 70)
    assert layer(facts, STORE).where == "linkhold.client.torchrun"


@pytest.mark.parametrize(
    ("arguments", "env", "files", "outage_s", "where"),
    [
        ("", {}, frozenset(), 1800, "default of gloo"),
        ("", {}, GPU, 600, "default of nccl"),
        ("--backend gloo", {}, GPU, 1800, "default of gloo"),
        ("--ddp-timeout 7200", {}, GPU, 7200, "argument --ddp_timeout of process 2"),
        ("--distributed-timeout-minutes=30", {}, GPU, 1800, "argument --distributed-timeout"),
        ("--timeout 300", {}, frozenset(), 300, "argument --timeout"),
        ("", {"TORCH_NCCL_ASYNC_ERROR_HANDLING": "0"}, GPU, math.inf, "TORCH_NCCL_ASYNC"),
    ],
)
def test_timeouts_of_process_groups(
    arguments: str, env: dict[str, str], files: frozenset[str], outage_s: float, where: str
) -> None:
    """By backend unless an argument says other; no end when NCCL's errors are ignored."""
    found = layer(job(arguments=arguments, env={**RANK, **env}, files=files), "process group")

    assert found.outage_s == outage_s
    assert found.where.startswith(where)


@pytest.mark.parametrize(
    ("words", "env", "outage_s"),
    [
        ("python train.py --timeout 5", RANK, 5),
        ("python train.py --timeout 5", {}, 1800),
        ("python -m pytest --timeout 5", RANK, 1800),
    ],
)
def test_a_timeout_counts_where_there_is_a_process_group(
    words: str, env: dict[str, str], outage_s: float
) -> None:
    """--timeout may be about anything: it takes a rank of a training, and says that it may not."""
    rank = TrainingProcess(2, 20, 0, "python", tuple(words.split()), env)
    found = layer(JobFacts("train.py@1", (rank,), sysctls=SYSCTLS), "process group")

    assert found.outage_s == outage_s
    assert ("if --timeout of the script" in found.note) is (outage_s == 5)


def test_deepspeed_has_a_default_of_its_own() -> None:
    """DEEPSPEED_TIMEOUT is in minutes, 30 without it."""
    facts = job("python -m deepspeed.launcher.launch train.py", files=GPU)
    more = job("deepspeed train.py", launch_env={"DEEPSPEED_TIMEOUT": "60"}, files=GPU)

    assert layer(facts, "process group").outage_s == 1800
    assert layer(more, "process group").outage_s == 3600


def test_nccl_is_a_matter_of_gpus_and_infiniband_of_adapters() -> None:
    """Without a GPU no NCCL; InfiniBand where a device is open, unless it is switched off."""
    plain = {one.name for one in budget(job()).layers}
    sockets = {one.name for one in budget(job(files=GPU)).layers}
    adapter = GPU | {"/dev/infiniband/uverbs0"}

    assert not any("NCCL" in name for name in plain)
    assert "watchdog of NCCL's process group" in sockets
    assert IB not in sockets
    assert layer(job(files=adapter), IB).outage_s == pytest.approx(30.06, abs=0.01)
    off = job(files=adapter, env={**RANK, "NCCL_IB_DISABLE": "1"})
    assert IB not in {one.name for one in budget(off).layers}


def test_ncclss_file_counts_below_the_environment() -> None:
    """/etc/nccl.conf sets what the environment does not."""
    conf = {"NCCL_IB_TIMEOUT": ("22", "/etc/nccl.conf")}
    facts = job(files=GPU, nccl_conf=conf)
    both = job(files=GPU, nccl_conf=conf, env={**RANK, "NCCL_IB_TIMEOUT": "18"})

    assert layer(facts, IB).where == "NCCL_IB_TIMEOUT in /etc/nccl.conf"
    assert layer(both, IB).value.startswith("NCCL_IB_TIMEOUT=18,")


def test_a_start_ends_no_running_job() -> None:
    """What only counts while a job starts is listed, but neither the weakest nor below --need."""
    facts = job(C10D.format("--rdzv_conf read_timeout=900,join_timeout=30"), files=GPU)
    found = budget(facts)

    assert {one.name for one in found.layers if one.effect is Effect.STARTS} == {
        "torchrun waiting for all nodes",
        "NCCL connecting",
    }
    assert found.layers[0].outage_s == 30
    assert found.weakest is not None
    assert found.weakest.outage_s == 480
    assert all(one.effect is Effect.SURVIVES for one in found.below(600))


@pytest.mark.parametrize(
    ("bond", "outage_s"),
    [
        (BondFacts("bond0", miimon_ms=100, downdelay_ms=200), 0.3),
        (BondFacts("bond0", arp_interval_ms=1000, missed_max=2), 3.5),
        (BondFacts("bond0"), None),
    ],
)
def test_a_bond_repairs_and_is_no_limit(bond: BondFacts, outage_s: float | None) -> None:
    """Its time is that after which the other member carries; without monitoring there is none."""
    facts = job(bonds=(bond,))
    found = layer(facts, "bond bond0")

    assert (found.outage_s, found.effect) == (outage_s, Effect.REPAIRS)
    assert not found.below(300)
    assert "bond" not in sentence(budget(facts))


def test_keepalive_ends_only_what_has_it() -> None:
    """Of connections that all lack SO_KEEPALIVE none is ended; where that is unknown, it counts."""
    name = "keepalive of idle"

    assert layer(job(), name).outage_s == 600
    assert layer(job(connections=9, kept_alive=2), name).outage_s == 600
    assert layer(job(connections=9, kept_alive=0), name).outage_s == math.inf


def test_advice_reaches_the_namespace_of_the_job() -> None:
    """A sysctl of the host reaches no container: the advice names what does."""
    inside = job(namespace="container 4f2a")

    assert layer(inside, "TCP with data").how.endswith("{namespaces: training}")
    assert "namespaces" not in layer(job(), "TCP with data").how


def test_unknown_is_never_fine_nor_a_number() -> None:
    """Sysctls that cannot be read are listed last as unknown, with the reason."""
    facts = job(sysctls={}, sysctls_error="Permission denied", namespace="netns pod")
    last = budget(facts).layers[-2:]

    assert [one.outage_s for one in last] == [None, None]
    assert all("Permission denied" in one.note for one in last)
    assert all(one.where.endswith("in network namespace netns pod") for one in last)


def test_one_node_is_said_to_be_out_of_reach() -> None:
    """When all ranks are here the sentence does not claim that an outage ends the job."""
    alone = budget(job(C10D.format(""), env={**RANK, "WORLD_SIZE": "8"}))

    assert alone.alone
    assert "over several nodes it would survive an outage of 60 s" in sentence(alone)


def test_clients_count_where_somebody_set_them() -> None:
    """Arguments and variables of loaders and clients; what depends on the kernel is unknown."""
    env = {**RANK, "AWS_MAX_ATTEMPTS": "10", "HF_HUB_DOWNLOAD_TIMEOUT": "20"}
    facts = job(arguments="--dataloader-timeout 40", env=env)

    assert layer(facts, "DataLoader").outage_s == 40
    assert layer(facts, "downloads").outage_s == 20
    assert layer(facts, "requests of AWS").outage_s is None


WORDS = st.sampled_from(
    ["--ddp_timeout", "--timeout", "--backend", "nccl", "12", "-3", "0", "1e9", "nan", "x=", ""]
)
VARIABLES = st.sampled_from(
    ["TORCH_NCCL_HEARTBEAT_TIMEOUT_SEC", "NCCL_IB_TIMEOUT", "NCCL_IB_RETRY_CNT", "AWS_MAX_ATTEMPTS",
     "NCCL_SOCKET_RETRY_CNT", "NCCL_SOCKET_RETRY_SLEEP_MSEC", "MLFLOW_HTTP_REQUEST_TIMEOUT",
     "AWS_METADATA_SERVICE_TIMEOUT", "PET_RDZV_CONF", "WORLD_SIZE"]
)  # fmt: skip
VALUES = st.sampled_from(["", "0", "7", "-1", "22", "1e300", "inf", "x", "read_timeout=1"])


@given(
    words=st.lists(WORDS, max_size=6),
    env=st.dictionaries(VARIABLES, VALUES),
    need_s=st.one_of(st.none(), st.floats(1, 1e6)),
    conf=st.text(max_size=20),
)
def test_smallest_first_whatever_is_set(
    words: list[str], env: dict[str, str], need_s: float | None, conf: str
) -> None:
    """Any arguments and environment: a budget in order, those not known last, weakest the least."""
    facts = job(C10D.format(""), env=env, launch_env=env, files=GPU)
    first, rank = facts.processes
    processes = (
        replace(first, words=(*first.words[:4], "--rdzv_conf", conf, *first.words[4:])),
        replace(rank, words=(*rank.words, *words)),
    )
    found = budget(replace(facts, processes=processes), need_s)

    known = [one.outage_s for one in found.layers if one.outage_s is not None]
    assert known == sorted(known)
    assert [one.outage_s is None for one in found.layers] == [False] * len(known) + [True] * (
        len(found.layers) - len(known)
    )
    assert found.weakest is not None
    assert all(
        (found.weakest.outage_s or 0.0) <= (one.outage_s or 0.0)
        for one in found.layers
        if one.effect is Effect.SURVIVES and one.outage_s is not None
    )
    assert sentence(found)
