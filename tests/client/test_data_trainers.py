"""hold.data inside what people train with: Lightning, accelerate, torchdata."""

from __future__ import annotations

import importlib
import importlib.util
import random
import warnings
from typing import TYPE_CHECKING, Any

import pytest
import torch
from torch.utils.data import DataLoader

from client.faulty_data import SAMPLES, IterData, MapData, Once, plain
from linkhold.client import Hold, data
from linkhold.client.data import crew, retrying

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::UserWarning"),
    pytest.mark.filterwarnings("ignore::FutureWarning"),
]

FAULTS: dict[Any, tuple[str, ...]] = {5: ("reset", "kill"), 30: ("timeout",), 33: ("exit",)}


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pauses and looks at the workers are short."""
    monkeypatch.setattr(data, "FIRST_PAUSE_S", 0.001)
    monkeypatch.setattr(data, "LONGEST_PAUSE_S", 0.002)
    monkeypatch.setattr(crew, "SLICE_S", 0.05)


def needs(package: str) -> pytest.MarkDecorator:
    """Skip a test where a package is not installed."""
    missing = importlib.util.find_spec(package) is None
    return pytest.mark.skipif(missing, reason=f"{package} is not installed")


def test_looks_like_the_loader() -> None:
    """len(), attributes, and what is set: all are the loader's."""
    loader = DataLoader(MapData(), 4, shuffle=True, drop_last=True)
    ours: Any = Hold.fake().data(loader)

    assert len(ours) == len(loader) == SAMPLES // 4
    for name in ("dataset", "sampler", "batch_sampler", "batch_size", "num_workers", "collate_fn"):
        assert getattr(ours, name) is getattr(loader, name)
    assert not hasattr(ours, "state_dict")
    ours.worker_init_fn = print
    assert loader.worker_init_fn is print
    with pytest.raises(ValueError, match="batch_size attribute should not be set"):
        ours.batch_size = 3
    assert Hold.fake().data(ours) is ours
    assert (ours.delivered, ours.retries, ours.rebuilds, ours.waiting) == (0, 0, 0, 0)


def test_a_retrying_data_set_looks_like_the_data_set() -> None:
    """Attributes go both ways, the length is the same, and wrapping twice changes nothing."""
    inner = MapData()
    ours: Any = retrying(inner)
    ours.once = "set through"

    assert (len(ours), inner.once) == (SAMPLES, "set through")
    with pytest.raises(AttributeError):
        _ = ours.nothing
    assert retrying(ours) is ours
    assert isinstance(ours, torch.utils.data.Dataset)
    assert isinstance(retrying(IterData()), torch.utils.data.IterableDataset)


def test_resume_reads_on_where_it_was(tmp_path: Path) -> None:
    """With resume= an iterable is not read again from its start."""
    asked = []

    class Log:
        def __iter__(self) -> Any:
            return self.after(0)

        def after(self, done: int) -> Any:
            for index in range(done, 20):
                asked.append(index)
                once.strike(index)
                yield index

    class Stream(Log, torch.utils.data.IterableDataset):  # type: ignore[type-arg]
        pass

    once = Once(tmp_path, {7: ("reset", "timeout"), 12: ("reset",)})
    ours = retrying(Stream(), resume=lambda dataset, done: dataset.after(done))

    assert list(ours) == list(range(20))
    assert asked == [*range(8), 7, 7, *range(8, 13), *range(12, 20)]


def test_loaders_that_cannot_be_taken_over_are_refused() -> None:
    """A loader with an __iter__ of its own would be left out: the error says what to do."""

    class Own(DataLoader[Any]):
        def __iter__(self) -> Any:
            return iter([1])

    with pytest.raises(TypeError, match=r"Own has an __iter__ of its own.*retrying"):
        Hold.fake().data(Own(MapData()))


@needs("accelerate")
def test_accelerate(tmp_path: Path) -> None:
    """A loader that accelerate prepared goes through faults with its batches and its epochs."""
    accelerate: Any = importlib.import_module("accelerate")
    shard: Any = importlib.import_module("accelerate.data_loader").DataLoaderShard

    def run(once: Once | None) -> Any:
        torch.manual_seed(3)
        random.seed(3)
        loader = accelerate.Accelerator(cpu=True).prepare(
            DataLoader(MapData(once), 4, shuffle=True, num_workers=2)
        )
        if once is not None:
            assert Hold.fake().data(loader) is loader
            assert isinstance(loader, shard)
        seen = [[plain(batch) for batch in loader] for _epoch in range(2)]
        return seen, loader.total_batch_size, torch.rand(1).item()

    once = Once(tmp_path, FAULTS)
    assert run(once) == run(None)
    assert once.struck == 4


@needs("lightning")
def test_lightning(tmp_path: Path) -> None:
    """A real Trainer sees the same losses, bit for bit, through resets and killed workers."""
    import logging

    import lightning as pl

    logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)

    class Model(pl.LightningModule):
        def __init__(self) -> None:
            super().__init__()
            self.layer = torch.nn.Linear(1, 1)
            self.losses: list[float] = []

        def training_step(self, batch: Any, _index: int) -> Any:
            loss = ((self.layer(batch[1].float().unsqueeze(1)) - batch[0].unsqueeze(1)) ** 2).mean()
            self.losses.append(loss.item())
            return loss

        def configure_optimizers(self) -> Any:
            return torch.optim.SGD(self.parameters(), lr=1e-3)

    def run(once: Once | None) -> list[float]:
        pl.seed_everything(5, workers=True, verbose=False)
        loader: Any = DataLoader(MapData(once), 4, shuffle=True, num_workers=2)
        if once is not None:
            loader = Hold.fake().data(loader)
        model = Model()
        trainer = pl.Trainer(
            max_epochs=2,
            accelerator="cpu",
            devices=1,
            logger=False,
            enable_checkpointing=False,
            enable_progress_bar=False,
            enable_model_summary=False,
            default_root_dir=tmp_path,
        )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            trainer.fit(model, loader)
        return model.losses

    folder = tmp_path / "faults"
    folder.mkdir()
    once = Once(folder, FAULTS)
    found = run(once)

    assert found == run(None)
    assert len(found) == 22
    assert once.struck == 4


@needs("torchdata")
@pytest.mark.parametrize("kind", [MapData, IterData])
def test_stateful_loader(tmp_path: Path, kind: Any) -> None:
    """Torchdata's loader finds its own way back after a death, and its state can be saved."""
    stateful: Any = importlib.import_module("torchdata.stateful_dataloader")

    def run(once: Once | None) -> Any:
        torch.manual_seed(3)
        random.seed(3)
        shuffle = None if kind is IterData else True
        loader: Any = stateful.StatefulDataLoader(kind(once), 4, shuffle=shuffle, num_workers=2)
        if once is not None:
            loader = Hold.fake().data(loader)
        seen = [[plain(batch)[0] for batch in loader] for _epoch in range(2)]
        assert loader.state_dict()
        return seen, torch.rand(1).item()

    once = Once(tmp_path, {5: ("reset", "kill"), 13: ("timeout",)})
    assert run(once) == run(None)
    assert once.struck == 3
