"""What launchers give up, and what they hide. Pure.

torchrun: torch/distributed/run.py and torch/distributed/elastic/rendezvous of torch 2.13.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from linkhold.decide.survival.values import Effect, Layer, Setting, number_of, raised, where_of
from linkhold.decide.training import marks

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from linkhold.decide.survival.values import JobFacts
    from linkhold.model.jobs import TrainingProcess

READ_TIMEOUT_S, JOIN_TIMEOUT_S, STATIC_TIMEOUT_S = 60.0, 600.0, 600.0
OUR_READ_TIMEOUT_S = 900
"""What linkhold.client.torchrun sets where nobody else does."""
STORE = "torchrun's rendezvous store"
LOOPBACK = ("localhost", "127.", "[::1]", "::1")
RESUMABLE = 75
"""Exit code of a run that stopped on purpose (linkhold.client)."""
_ELASTIC = frozenset({marks.TORCHRUN, marks.ACCELERATE})
_DYNAMIC = frozenset({"c10d", "etcd-v2"})
_READ_SOURCE = "_create_tcp_store() in torch/distributed/elastic/rendezvous/c10d_rendezvous_backend"
_JOIN_SOURCE = "RendezvousTimeout in torch/distributed/elastic/rendezvous/dynamic_rendezvous.py"
_STATIC_SOURCE = "torch/distributed/elastic/rendezvous/static_tcp_rendezvous.py"


@dataclass(frozen=True, slots=True)
class Rendezvous:
    """How a launcher of torch's elastic kind brings its ranks together.

    ``conf`` are the pairs of --rdzv_conf, ``conf_at`` where they are from. ``nodes`` is the most
    nodes that may take part, ``ours`` whether it is linkhold.client.torchrun.
    """

    process: TrainingProcess
    name: str
    backend: str
    endpoint: str
    nodes: int
    restarts: int
    conf: Mapping[str, str] = field(default_factory=dict)
    conf_at: str = ""
    ours: bool = False

    @property
    def local(self) -> bool:
        """Whether the store is reached over loopback, by this launcher at least."""
        return self.endpoint.startswith(LOOPBACK)

    def pair(self, key: str) -> Setting | None:
        """Return one setting of --rdzv_conf."""
        if key not in self.conf:
            if self.ours and key == "read_timeout":
                return Setting(str(OUR_READ_TIMEOUT_S), marks.OUR_TORCHRUN)
            return None
        return Setting(self.conf[key], f"{self.conf_at} ({key})")


def rendezvous(facts: JobFacts) -> Rendezvous | None:
    """Return the rendezvous of the job's torchrun or accelerate, None when it has none."""
    found = [
        _rendezvous(process, name)
        for process in facts.launchers
        if (name := marks.launcher(process.words)) in _ELASTIC
    ]
    # Of several on one node the least patient ends the job.
    return min(found, default=None, key=_patience_s)


def _patience_s(found: Rendezvous) -> float:
    return number_of(found.pair("read_timeout"), READ_TIMEOUT_S)


def launcher_layers(facts: JobFacts, aim_s: float) -> Iterator[Layer]:
    """Yield the times after which torchrun gives the job up."""
    found = rendezvous(facts)
    if found is None:
        return
    if found.backend in _DYNAMIC:
        yield _read_layer(found, aim_s)
        yield _start_layer(found, "join_timeout", JOIN_TIMEOUT_S, _JOIN_SOURCE, aim_s)
    elif found.backend == "static":
        yield _start_layer(found, "timeout", STATIC_TIMEOUT_S, _STATIC_SOURCE, aim_s)


def warnings(facts: JobFacts) -> tuple[str, ...]:
    """Return what of a launcher gets in the way of a run that stops on purpose."""
    found = rendezvous(facts)
    if found is None or found.ours:
        return ()
    again = (
        f"and starts the ranks again at once, up to {found.restarts} times (--max_restarts)"
        if found.restarts
        else "so whoever started it cannot tell a stop on purpose from a crash"
    )
    text = (
        f"{found.name} (process {found.process.pid}) hides the resumable exit code: when a rank "
        f"ends with {RESUMABLE} it ends with 1 itself, {again}; go by the stop marker of the "
        "client (.linkhold-stop or $LINKHOLD_STOP_MARKER) instead"
    )
    return (text,)


def on_this_node(facts: JobFacts) -> bool:
    """Whether all ranks of the job run on this node, as their launcher told them."""
    sizes = {
        (rank.env.get("WORLD_SIZE"), rank.env.get("LOCAL_WORLD_SIZE"))
        for rank in facts.ranks
        if "WORLD_SIZE" in rank.env
    }
    return bool(sizes) and all(world in {local, "1"} for world, local in sizes)


def _read_layer(found: Rendezvous, aim_s: float) -> Layer:
    setting = found.pair("read_timeout")
    outage_s = number_of(setting, READ_TIMEOUT_S)
    note = f"{found.name} dies of it and takes its healthy ranks along; --max_restarts is no help"
    if found.local:
        note += f"; here it asks {found.endpoint}, which no outage of the network cuts off"
    return Layer(
        STORE,
        outage_s,
        f"read_timeout={outage_s:g}",
        where_of(setting, "default"),
        _conf(found, "read_timeout", raised(outage_s, aim_s)),
        _READ_SOURCE,
        note=note,
    )


def _start_layer(found: Rendezvous, key: str, default_s: float, source: str, aim_s: float) -> Layer:
    setting = found.pair(key)
    outage_s = number_of(setting, default_s)
    return Layer(
        f"{found.name} waiting for all nodes",
        outage_s,
        f"{key}={outage_s:g}",
        where_of(setting, "default"),
        _conf(found, key, raised(outage_s, aim_s)),
        source,
        Effect.STARTS,
    )


def _conf(found: Rendezvous, key: str, wanted_s: float) -> str:
    pairs = {**found.conf, key: f"{wanted_s:.0f}"}
    return "--rdzv_conf " + ",".join(f"{name}={value}" for name, value in pairs.items())


def _rendezvous(process: TrainingProcess, name: str) -> Rendezvous:
    words = own_arguments(process)
    alone = "--standalone" in words or process.env.get("PET_STANDALONE", "0") not in {"", "0"}
    conf, conf_at = _option(process, words, "rdzv_conf", "")
    return Rendezvous(
        process,
        name,
        "c10d" if alone else _option(process, words, "rdzv_backend", "static")[0].lower(),
        "localhost" if alone else _endpoint(process, words),
        1 if alone else _most(_option(process, words, "nnodes", "1")[0]),
        _most(_option(process, words, "max_restarts", "0")[0], 0),
        dict(_pairs(conf)),
        conf_at,
        marks.program(process.words).name == marks.OUR_TORCHRUN,
    )


def own_arguments(process: TrainingProcess) -> tuple[str, ...]:
    """Return a launcher's own arguments, without those of the script that it starts."""
    words = marks.program(process.words).arguments
    for at, word in enumerate(words):
        if word in {"-m", "--module"} or word.endswith(".py"):
            return words[:at]
    return words


def _option(
    process: TrainingProcess, words: tuple[str, ...], key: str, default: str
) -> tuple[str, str]:
    """Return an option and where it is from; torchrun takes PET_* from the environment as well.

    torch/distributed/argparse_util.py.
    """
    given = marks.option(words, f"--{key}")
    if given is not None:
        return given, f"argument --{key} of process {process.pid}"
    variable = f"PET_{key.upper()}"
    if variable in process.env:
        return process.env[variable], f"{variable} in the environment of process {process.pid}"
    return default, "default"


def _endpoint(process: TrainingProcess, words: tuple[str, ...]) -> str:
    endpoint = _option(process, words, "rdzv_endpoint", "")[0]
    return endpoint or _option(process, words, "master_addr", "127.0.0.1")[0]


def _pairs(conf: str) -> Iterator[tuple[str, str]]:
    """Yield the settings of --rdzv_conf as _parse_rendezvous_config() reads them."""
    for pair in conf.split(","):
        key, equals, value = pair.strip().partition("=")
        if equals:
            yield key.strip(), value.strip()


def _most(text: str, default: int = 1) -> int:
    """Return the larger number of ``MIN:MAX``."""
    last = text.rpartition(":")[2]
    return int(last) if last.isdecimal() else default
