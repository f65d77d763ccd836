"""Data through real DataLoaders with real worker processes that fail and die."""

from __future__ import annotations

import functools
import inspect
import itertools
import multiprocessing
import os
import random
import signal
import time
from multiprocessing.connection import Connection
from typing import TYPE_CHECKING, Any

import pytest
import torch
from torch.utils.data import BatchSampler, DataLoader, RandomSampler, get_worker_info
from torch.utils.data.distributed import DistributedSampler

from client.faulty_data import (
    FAULTS,
    RETRIED,
    SAMPLES,
    BatchedData,
    Collate,
    IterData,
    MapData,
    Once,
    plain,
)
from linkhold.client import Hold, data
from linkhold.client.data import WorkersLost, crew

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

pytestmark = [
    # Two workers dead at once: the second signal interrupts torch's own look at free descriptors,
    # or multiprocessing between the making of a socket for a descriptor and its ``with``.
    pytest.mark.filterwarnings(
        "ignore:Exception ignored in. <_io.FileIO:pytest.PytestUnraisableExceptionWarning"
    ),
    pytest.mark.filterwarnings(
        "ignore:Exception ignored in. <socket.*/pymp-:pytest.PytestUnraisableExceptionWarning"
    ),
    pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning"),
    pytest.mark.filterwarnings("ignore:.*no accelerator is found.*:UserWarning"),
    pytest.mark.filterwarnings("ignore:This DataLoader will create.*:UserWarning"),
]

EPOCHS = 2


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pauses and looks at the workers are short: the order of things is what is tested."""
    monkeypatch.setattr(data, "FIRST_PAUSE_S", 0.001)
    monkeypatch.setattr(data, "LONGEST_PAUSE_S", 0.002)
    monkeypatch.setattr(crew, "SLICE_S", 0.05)


def train(loader: Any, epochs: int = EPOCHS) -> Any:
    """Run an epoch after the other; return all batches, and the trainer's own random numbers."""
    seen = []
    for epoch in range(epochs):
        if isinstance(loader.sampler, DistributedSampler):
            loader.sampler.set_epoch(epoch)
        seen.append([plain(batch) for batch in loader])
    return seen, torch.rand(1).item(), random.random()


def seeded(make: Callable[[], Any], **changes: Any) -> Any:
    """Train from fixed seeds."""
    torch.manual_seed(11)
    random.seed(11)
    return train(make(), **changes)


def folder_of(tmp_path: Path, number: int) -> Path:
    """Make a folder for one of many schedules."""
    folder = tmp_path / str(number)
    folder.mkdir()
    return folder


def settings(dice: random.Random) -> dict[str, Any]:
    """Return a random shape of a loader."""
    shape: dict[str, Any] = {
        "num_workers": dice.randint(1, 3),
        "prefetch_factor": dice.choice([1, 2, 4]),
        "persistent_workers": dice.random() < 0.5,
        "pin_memory": dice.random() < 0.3,
    }
    kind = dice.choice(["shuffle", "batch_sampler", "single", "ranks", "generator"])
    batch_size = dice.choice([1, 3, 4])
    if kind == "batch_sampler":
        shape["sampled"] = batch_size
    elif kind == "single":
        shape |= {"batch_size": None, "shuffle": True}
    elif kind == "ranks":
        shape |= {"batch_size": batch_size, "drop_last": dice.random() < 0.5, "ranks": 2}
    else:
        shape |= {"batch_size": batch_size, "shuffle": True, "drop_last": dice.random() < 0.5}
        shape["own"] = kind == "generator"
    return shape


def make_loader(dataset: Any, collate: Any, shape: dict[str, Any]) -> DataLoader[Any]:
    """Make the loader of a shape that :func:`settings` returned."""
    rest = dict(shape)
    if rest.pop("own", False):
        rest["generator"] = torch.Generator().manual_seed(5)
    if (batch_size := rest.pop("sampled", None)) is not None:
        rest["batch_sampler"] = BatchSampler(RandomSampler(dataset), batch_size, drop_last=False)
    if (ranks := rest.pop("ranks", None)) is not None:
        rest["sampler"] = DistributedSampler(dataset, num_replicas=ranks, rank=1, shuffle=True)
    if rest.get("batch_size", 1) is not None:
        rest["collate_fn"] = collate
    return DataLoader(dataset, **rest)


def schedule(dice: random.Random) -> dict[Any, tuple[str, ...]]:
    """Return faults for places; three deaths, as a fourth in a row would rightly be the end."""
    places = [*range(SAMPLES), *(("collate", index) for index in range(SAMPLES))]
    return {
        place: (dice.choice(RETRIED), dice.choice(FAULTS[3:] if number < 3 else RETRIED))
        for number, place in enumerate(dice.sample(places, 6))
    }


def compared(seed: int, folder: Path) -> Any:
    """Train with and without faults; return the loader that went through them."""
    dice = random.Random(seed)
    kind: Any = dice.choice([MapData, BatchedData])
    shape, faults = settings(dice), schedule(dice)
    once, hold, loaders = Once(folder, faults), Hold.fake(), []

    def make() -> Any:
        loaders.append(hold.data(make_loader(kind(once), Collate(once), shape)))
        return loaders[0]

    wanted = seeded(lambda: make_loader(kind(), Collate(), shape))
    assert seeded(make) == wanted, (seed, kind, shape, faults, hold.log)
    return loaders[0]


@pytest.mark.parametrize("block", range(4))
def test_schedules_of_resets_and_kills(tmp_path: Path, block: int) -> None:
    """Whatever fails and dies when, a run sees the batches, bit for bit, of one without faults."""
    rebuilds = retries = 0
    for seed in range(block * 6, block * 6 + 6):
        loader = compared(seed, folder_of(tmp_path, seed))
        rebuilds += loader.rebuilds
        retries += loader.retries
    assert rebuilds > 7
    assert retries > 15


@pytest.mark.parametrize("seed", range(6))
def test_iterable_schedules(tmp_path: Path, seed: int) -> None:
    """An iterable data set in shards comes whole and in its order, through resets and kills."""
    dice = random.Random(seed)
    shape: Any = {"num_workers": dice.randint(1, 3), "batch_size": dice.choice([None, 1, 4])}
    faults: dict[Any, tuple[str, ...]] = {
        index: (dice.choice(FAULTS[3:] if number < 3 else RETRIED), dice.choice(RETRIED))
        for number, index in enumerate(dice.sample(range(1, SAMPLES // 2), 5))
    }
    once = Once(tmp_path, faults)
    wanted = seeded(lambda: DataLoader(IterData(), **shape))
    hold = Hold.fake()

    assert seeded(lambda: hold.data(DataLoader(IterData(once), **shape))) == wanted
    assert once.struck > 4


@pytest.mark.parametrize("method", ["spawn", "forkserver"])
def test_workers_that_are_spawned(tmp_path: Path, method: str) -> None:
    """Everything goes to workers that are not forked: schedule, counters, order, random state."""
    once = Once(tmp_path, {7: ("reset", "kill"), 30: ("timeout",)})
    shape: dict[str, Any] = {"batch_size": 6, "shuffle": True, "num_workers": 1}
    wanted = seeded(lambda: DataLoader(MapData(), **shape), epochs=1)
    shape["multiprocessing_context"] = method
    hold = Hold.fake()
    loaders = []

    def make() -> Any:
        loaders.append(hold.data(DataLoader(MapData(once), **shape)))
        return loaders[0]

    assert seeded(make, epochs=1) == wanted
    assert (loaders[0].rebuilds, loaders[0].retries) == (1, 2)


def test_without_workers(tmp_path: Path) -> None:
    """With num_workers=0 the trainer itself reads again, and its random numbers stay right."""
    struck = 0
    for seed in range(60):
        dice = random.Random(seed)
        places = [*range(SAMPLES), *(("collate", index) for index in range(SAMPLES))]
        faults: dict[Any, tuple[str, ...]] = {
            place: (dice.choice(RETRIED),) * 2 for place in dice.sample(places, 6)
        }
        once = Once(folder_of(tmp_path, seed), faults)
        kind: Any = dice.choice([MapData, BatchedData, IterData])
        shape: Any = {"batch_size": dice.choice([None, 1, 4])}
        if kind is not IterData:
            shape["shuffle"] = True

        def make(dataset: Any, collate: Any, given: Any = shape) -> Any:
            own = {} if given["batch_size"] is None else {"collate_fn": collate}
            return DataLoader(dataset, **given, **own)

        wanted = seeded(functools.partial(make, kind(), Collate()))
        loader = Hold.fake().data(make(kind(once), Collate(once)))

        assert seeded(lambda it=loader: it) == wanted, (seed, faults)  # type: ignore[misc]
        assert loader.retries == once.struck
        struck += once.struck
    assert struck > 300


def test_out_of_order(tmp_path: Path) -> None:
    """With in_order=False each sample still comes once, in whatever order."""
    once = Once(tmp_path, {3: ("kill",), 20: ("reset", "exit"), 33: ("kill",)})
    loader = DataLoader(MapData(once), 3, shuffle=True, num_workers=3, in_order=False)

    seen = train(Hold.fake().data(loader), epochs=1)[0][0]

    assert sorted(itertools.chain(*(batch[0] for batch in seen))) == list(range(SAMPLES))


def test_killed_between_steps() -> None:
    """A worker killed while the trainer computes raises nothing there; no batch is lost."""
    hold = Hold.fake()
    loader: Any = hold.data(DataLoader(MapData(), 2, num_workers=2, persistent_workers=True))
    indices = []
    for number, batch in enumerate(loader):
        indices += batch[0].tolist()
        if number in {2, 9}:
            for child in multiprocessing.active_children()[:number]:
                assert child.pid is not None
                os.kill(child.pid, signal.SIGKILL)
            end_s = time.monotonic() + 0.2
            while time.monotonic() < end_s:  # torch's own handler would raise in here
                pass

    assert indices == list(range(SAMPLES))
    assert loader.rebuilds == 2


def test_other_errors_pass_unchanged() -> None:
    """A programming error comes out as it does without linkhold, and the loader goes on."""

    class Broken(MapData):
        def __getitem__(self, index: int) -> Any:
            if index == 4:
                raise KeyError("label")
            return index

    def read(loader: Any) -> list[Any]:
        seen, batches = [], iter(loader)
        while True:
            try:
                seen.append(next(batches).tolist())
            except KeyError as error:
                seen.append(type(error).__name__)
            except StopIteration:
                return seen

    loader = DataLoader(Broken(), 3, num_workers=2)
    wanted = read(loader)

    assert read(Hold.fake().data(loader)) == wanted
    assert wanted[1] == "KeyError"


@pytest.mark.parametrize(
    ("fault", "said"), [("kill", "4 times in a row"), ("leave", "samples [4, 5]")]
)
def test_a_sample_that_kills_is_not_read_for_ever(fault: str, said: str, tmp_path: Path) -> None:
    """After three rebuilds without a batch the error names the batch and what to do."""
    once = Once(tmp_path, {5: (fault,) * 99})
    hold = Hold.fake()
    loader: Any = hold.data(DataLoader(MapData(once), 2, num_workers=2))
    seen: list[Any] = []

    with pytest.raises(WorkersLost, match=r"batch 2 .*num_workers=0") as caught:
        seen.extend(batch[0].tolist() for batch in loader)

    assert said in str(caught.value)
    assert isinstance(caught.value, RuntimeError)
    assert not multiprocessing.active_children()


def test_the_limit_of_rebuilds(tmp_path: Path) -> None:
    """max_rebuilds ends a pass whose workers die again and again, though batches come."""
    once = Once(tmp_path, dict.fromkeys(range(0, SAMPLES, 4), ("kill",)))
    loader: Any = Hold.fake().data(DataLoader(MapData(once), 4, num_workers=1), max_rebuilds=2)

    with pytest.raises(WorkersLost, match="2 is the limit"):
        list(loader)
    assert loader.rebuilds == 2


def test_an_iterable_that_does_not_repeat_says_so(tmp_path: Path) -> None:
    """What cannot be found again is not guessed at: the error says that nothing repeats."""

    class Shrinking(IterData):
        def __iter__(self) -> Any:
            yield from range(4 if once.struck else 20)
            once.strike("end")

    once = Once(tmp_path, {"end": ("kill",)})
    loader: Any = Hold.fake().data(DataLoader(Shrinking(), 2, num_workers=1))

    with pytest.raises(WorkersLost, match="does not repeat itself"):
        list(loader)


def test_the_timeout_of_the_loader_still_holds() -> None:
    """A worker that hangs, not waiting for any network, is told of after the loader's timeout."""

    class Hanging(MapData):
        def __getitem__(self, index: int) -> Any:
            time.sleep(60 if index == 2 else 0)
            return index

    fed = []
    hold = Hold.fake()
    hold.on_wait = lambda: fed.append(1)
    loader: Any = hold.data(DataLoader(Hanging(), 1, num_workers=1, timeout=1))
    batches = iter(loader)
    next(batches)
    next(batches)
    began_s = time.monotonic()

    with pytest.raises(RuntimeError, match="timed out after 1 seconds"):
        next(batches)
    assert 0.9 < time.monotonic() - began_s < 5
    assert len(fed) > 3
    for child in multiprocessing.active_children():
        child.kill()


@pytest.mark.parametrize("kind", [MapData, IterData])
def test_a_worker_that_leaves_half_a_message(tmp_path: Path, kind: Any) -> None:
    """It ends with code 0 in the middle of a write, while it is waited for: replaced, not hung."""
    once = Once(tmp_path, {5: ("half",)})
    expected = seeded(lambda: DataLoader(kind(), 4, num_workers=2))

    assert seeded(lambda: Hold.fake().data(DataLoader(kind(once), 4, num_workers=2))) == expected
    assert len(list(tmp_path.iterdir())) == 1


def test_torch_is_made_as_we_think() -> None:
    """What we use of torch's private parts is there, and does what we use it for."""
    from torch.utils.data import _utils

    iterator: Any = iter(DataLoader(MapData(), 2, num_workers=1))
    handling: Any = _utils.signal_handling

    assert iterator._worker_pids_set is True
    assert iterator._timeout == 0
    assert [worker.exitcode for worker in iterator._workers] == [None]
    assert iterator._workers_status == [True]
    reader = iterator._worker_result_queue._reader
    assert iterator._worker_result_queue._recv_bytes.__self__ is getattr(reader, "conn", reader)
    assert "self._recv(" in inspect.getsource(Connection._recv_bytes)  # type: ignore[attr-defined]
    assert callable(handling._set_worker_pids)
    assert callable(handling._remove_worker_pids)
    iterator._shutdown_workers()
    assert iterator._worker_pids_set is False
    assert iterator._workers[0].exitcode is not None


def start_worker(number: int) -> None:
    """Change the data set as worker_init_fn often does."""
    info = get_worker_info()
    assert info is not None
    assert type(info.dataset) is Sharded
    info.dataset.mine = number


class Sharded(IterData):
    mine = -1

    def __iter__(self) -> Any:
        yield from range(self.mine * 10, self.mine * 10 + 5)


def test_worker_init_sees_the_users_own_data_set() -> None:
    """worker_init_fn finds the user's data set in get_worker_info(), and what it sets counts."""
    loader = DataLoader(Sharded(), None, num_workers=2, worker_init_fn=start_worker)

    assert sorted(map(int, Hold.fake().data(loader))) == [*range(5), *range(10, 15)]


def test_a_loop_that_ends_early_leaves_no_workers() -> None:
    """After a break the workers end, also those that wait for the network."""

    class Down(MapData):
        def __getitem__(self, index: int) -> Any:
            if index > 2:
                raise ConnectionResetError(104, "reset")
            return index

    loader: Any = Hold.fake().data(DataLoader(Down(), 1, num_workers=2))
    for number, _batch in enumerate(loader):
        if number == 2:
            break
    began_s = time.monotonic()
    while multiprocessing.active_children():
        assert time.monotonic() - began_s < 3
        time.sleep(0.02)
