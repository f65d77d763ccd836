"""Workers that read from a real server, with a real state of the node beside them."""

from __future__ import annotations

import http.server
import json
import logging
import os
import signal
import subprocess
import sys
import threading
import time
import urllib.request
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from torch.utils.data import DataLoader, Dataset

from client.conftest import until
from client.faulty_data import MapData, Once
from linkhold.client import Hold, data, retry
from linkhold.client.data import crew, retrying
from linkhold.client.retry.nesting import inside

if TYPE_CHECKING:
    from collections.abc import Iterator

    from client.states import HandAgent

pytestmark = pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")

SAMPLES = 24


class Storage:
    """A server of samples on loopback that can be down, and counts what it is asked."""

    def __init__(self) -> None:
        self.down = False
        self.asked: list[float] = []
        outer = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                outer.asked.append(time.monotonic())
                if outer.down:
                    self.connection.close()  # in the middle of an exchange: a reset for the reader
                    return
                body = self.path.encode()
                self.send_response(200)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_args: object) -> None:
                """Say nothing."""

            def finish(self) -> None:
                if not outer.down:
                    super().finish()

        class Server(http.server.ThreadingHTTPServer):
            def handle_error(self, *_args: object) -> None:
                """A reader that went away is no news."""

        self._server = Server(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,))
        self._thread.start()

    def close(self) -> None:
        """Stop serving."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


@pytest.fixture
def storage() -> Iterator[Storage]:
    """A running storage."""
    storage = Storage()
    yield storage
    storage.close()


class Remote(Dataset[Any]):
    """Reads each sample over HTTP."""

    def __init__(self, url: str) -> None:
        self.url = url

    def __len__(self) -> int:
        return SAMPLES

    def __getitem__(self, index: int) -> int:
        with urllib.request.urlopen(f"{self.url}/{index}", timeout=5) as answer:
            return int(answer.read()[1:])


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pauses are short."""
    monkeypatch.setattr(data, "FIRST_PAUSE_S", 0.05)
    monkeypatch.setattr(data, "LONGEST_PAUSE_S", 0.1)
    monkeypatch.setattr(data, "SPREAD_S", 0.1)
    monkeypatch.setattr(crew, "SLICE_S", 0.1)


def test_no_request_while_the_node_is_cut_off(
    storage: Storage, run_dir: Path, agent: HandAgent, tmp_path: Path
) -> None:
    """Workers that fail while the agent says "network down" ask nobody until it says otherwise."""
    agent.say(by_broker=False)
    log = logging.FileHandler(tmp_path / "log")
    logging.getLogger("linkhold").addHandler(log)
    hold = Hold.connect(run_dir=run_dir, wait_s=0, cover=False)
    with hold:
        loader: Any = hold.data(DataLoader(Remote(storage.url), 2, num_workers=2))
        batches = iter(loader)
        seen = next(batches).tolist()
        time.sleep(0.3)  # what was read ahead is there
        agent.say(by_broker=False, network="down", cause=("eth0 lost carrier",))
        storage.down = True

        def outage() -> None:
            assert until(lambda: loader.waiting == 2)
            time.sleep(0.3)
            before = len(storage.asked)
            time.sleep(1.0)
            quiet.append(len(storage.asked) - before)
            storage.down = False
            agent.say(by_broker=False)

        quiet: list[int] = []
        thread = threading.Thread(target=outage)
        thread.start()
        for batch in batches:
            seen += batch.tolist()
        thread.join()

    assert seen == list(range(SAMPLES))
    assert quiet == [0]
    assert loader.retries >= 2
    assert loader.waited_s > 2
    assert loader.waiting == 0
    logging.getLogger("linkhold").removeHandler(log)
    log.close()
    said = (tmp_path / "log").read_text(encoding="utf-8")
    assert said.count("reading data waits") == 1
    assert said.count("data comes again") == 1
    assert "eth0 lost carrier" in said


def test_a_storage_that_fails_while_the_node_is_well(storage: Storage) -> None:
    """A dead storage behind a live network is asked again with growing pauses, and all comes."""
    storage.down = True
    threading.Timer(0.6, lambda: setattr(storage, "down", False)).start()
    loader = DataLoader(retrying(Remote(storage.url)), 4, num_workers=2)

    assert [index for batch in loader for index in batch.tolist()] == list(range(SAMPLES))


class WithOwnRetry(Remote):
    """Has a retry of its own around each read."""

    def __getitem__(self, index: int) -> int:
        assert inside()
        with urllib.request.urlopen(f"{self.url}/{index}", timeout=5) as answer:
            return int(answer.read()[1:])


def test_own_retries_inside_know_of_ours(storage: Storage) -> None:
    """A data set that uses linkhold.client.retry is inside our attempt, and does not multiply."""
    assert retry is not None
    loader = DataLoader(retrying(WithOwnRetry(storage.url)), 4, num_workers=1)

    assert sum(len(batch) for batch in loader) == SAMPLES


def test_an_error_after_the_limit_is_the_original_one(
    storage: Storage, caplog: pytest.LogCaptureFixture
) -> None:
    """When max_wait_s is over the trainer gets the read's own error; the log says the rest."""
    storage.down = True
    with caplog.at_level(logging.WARNING, "linkhold"):
        loader = DataLoader(retrying(Remote(storage.url), max_wait_s=0.4), 4)
        with pytest.raises((ConnectionError, OSError, http.client.HTTPException)):
            next(iter(loader))

    assert "data given up after 0 s" in caplog.text


ORPHANS = """
import sys, torch
from torch.utils.data import DataLoader
from client.test_data_outage import Remote
from linkhold.client.data import retrying
loader = DataLoader(retrying(Remote(sys.argv[1])), 1, num_workers=2)
batches = iter(loader)
print(*(worker.pid for worker in batches._workers), flush=True)
next(batches)
"""


def _alive(pid: int) -> bool:
    try:
        return "Z" not in Path(f"/proc/{pid}/stat").read_text(encoding="ascii").split(") ")[1][:1]
    except OSError:
        return False


def test_no_worker_outlives_its_trainer(storage: Storage) -> None:
    """Workers that wait for the network end within a second when the trainer is killed."""
    storage.down = True
    tests = Path(__file__).parents[1]
    with subprocess.Popen(
        [sys.executable, "-W", "ignore", "-c", ORPHANS, storage.url],
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": str(tests)},
        text=True,
    ) as trainer:
        assert trainer.stdout is not None
        workers = [int(pid) for pid in trainer.stdout.readline().split()]
        assert until(lambda: len(storage.asked) > 4, 20)
        trainer.send_signal(signal.SIGKILL)
    try:
        assert len(workers) == 2
        assert until(lambda: not any(map(_alive, workers)), 8)
    finally:
        for worker in filter(_alive, workers):
            os.kill(worker, signal.SIGKILL)


INTERRUPTED = """
import signal, sys
from torch.utils.data import DataLoader
from client.test_data_outage import Remote
from linkhold.client import Hold
signal.signal(signal.SIGINT, signal.default_int_handler)
for batch in Hold.fake().data(DataLoader(Remote(sys.argv[1]), 1, num_workers=2)):
    pass
"""


def test_an_error_of_the_program_ends_it_while_workers_wait(storage: Storage) -> None:
    """Ctrl-C out of a loop at module level: the interpreter ends, and its workers with it."""
    storage.down = True
    tests = Path(__file__).parents[1]
    with subprocess.Popen(
        [sys.executable, "-W", "ignore", "-c", INTERRUPTED, storage.url],
        stderr=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": str(tests)},
        text=True,
    ) as trainer:
        try:
            assert until(lambda: len(storage.asked) > 4, 30)
            trainer.send_signal(signal.SIGINT)
            _, said = trainer.communicate(timeout=20)
        finally:
            trainer.kill()

    assert trainer.returncode == -signal.SIGINT
    assert said.endswith("KeyboardInterrupt\n")


def test_nonsense_in_the_state_file_stops_nothing(run_dir: Path, agent: HandAgent) -> None:
    """Only a fresh state of this boot that says "down" closes the gate; all else leaves it open."""
    gate = data.StateGate(run_dir)
    assert gate.closed() is None
    for content in (b"", b"\x00", b"{}", json.dumps({"schema": 1}).encode()):
        agent.write(content)
        assert gate.closed() is None
    agent.say(by_broker=False, network="down")
    assert str(gate.closed()).startswith("network down")
    agent.say(by_broker=False, network="down", mono_ns=time.monotonic_ns() - int(60e9))
    agent.write(b"garbage")
    assert gate.closed() is not None  # what was believed last is still fresh
    agent.say(by_broker=False, network="ok")
    assert gate.closed() is None
    agent.say(by_broker=False, uploads="hold")
    assert gate.closed() is None


def test_a_fake_hold_looks_at_no_agent(
    run_dir: Path, agent: HandAgent, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Data of Hold.fake() are read again while this very node's own agent says network down."""
    monkeypatch.setenv("LINKHOLD_RUN_DIR", str(run_dir))
    monkeypatch.setattr(data, "FIRST_PAUSE_S", 0.001)
    agent.say(by_broker=False, network="down")
    once = Once(tmp_path / "faults", {3: ("reset",)})
    once.folder.mkdir()

    loader = Hold.fake(network="down").data(DataLoader(MapData(once), 1), max_wait_s=5)

    assert [batch[0].item() for batch in loader] == [*range(len(MapData()))]
    assert once.struck == 1
