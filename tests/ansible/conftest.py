"""What a rollout is made of: a wheel, its venv, the wheels it depends on, and the collection."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from linkhold.install.files import lock_text
from support import containers, installed
from support.broker import MOSQUITTO
from support.containers import CONTROLLER, Switch
from support.rollout import Controller, install_collection
from support.rollout_fleet import FleetBroker

if TYPE_CHECKING:
    from collections.abc import Iterator


@dataclass(frozen=True)
class Made:
    """Files of a rollout; ``layer`` is laid over a node's root and has a finished venv."""

    folder: Path
    wheel: Path
    layer: Path
    wheelhouse: Path
    collections: Path


@dataclass(frozen=True)
class Site:
    """Where a rollout happens: the switch, the controller on it, and the fleet's broker."""

    switch: Switch
    controller: Controller
    broker: FleetBroker


@pytest.fixture(scope="session")
def collections(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The collection, built and installed as a release is."""
    return install_collection(tmp_path_factory.mktemp("collections"))


@pytest.fixture(scope="session")
def made(collections: Path) -> Iterator[Made]:
    """Build all of it in a folder that the sandbox of the service does not hide."""
    reason = containers.missing() or installed.missing()
    if not reason and not Path(MOSQUITTO).exists():
        reason = "mosquitto is not installed"
    place = installed.REPO / "build"
    if str(place).startswith(("/home/", "/root/", "/tmp/", "/var/tmp/")):
        reason = f"the sandbox hides what is in {place}"
    if reason:
        pytest.skip(reason)
    place.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="rollout-", dir=place) as name:
        folder = Path(name)
        folder.chmod(0o755)
        wheel = installed.build_wheel(folder)
        yield Made(folder, wheel, _venv(folder, wheel), _wheelhouse(folder), collections)


def _venv(folder: Path, wheel: Path) -> Path:
    root = folder / "root"
    installed.furnish(root)
    installed.setup(wheel, "--system", "--root", str(root))
    layer = folder / "layer"
    (layer / "opt").mkdir(parents=True)
    shutil.move(root / "opt/linkhold", layer / "opt/linkhold")
    (layer / "opt/linkhold/current").unlink()
    return layer


def _wheelhouse(folder: Path) -> Path:
    house, lock = folder / "wheels", folder / "lock.txt"
    lock.write_bytes(lock_text())
    options = ("--quiet", "--no-deps", "--only-binary", ":all:", "--require-hashes")
    # For the node's interpreter, whatever runs the tests.
    of_node = ("--python-version", "3.11", "--implementation", "cp", "--abi", "cp311")
    command = [sys.executable, "-m", "pip", "download", *options, *of_node]
    words = [*command, "-r", str(lock), "-d", str(house)]
    done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=180)
    assert done.returncode == 0, done.stderr
    return house


@pytest.fixture(scope="module")
def site(made: Made) -> Iterator[Site]:
    """A switch with a controller and the fleet's broker, in namespaces."""
    with ExitStack() as stack:
        switch = stack.enter_context(Switch())
        # Short: the path of a socket of ssh has at most 108 bytes.
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="ctl-", dir="/tmp"))
        controller = Controller(switch.namespace, Path(folder), made.collections)
        place = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="broker-", dir="/tmp")))
        place.chmod(0o755)  # mosquitto drops its rights
        broker = FleetBroker(place / "fleet", switch.namespace, CONTROLLER)
        broker.start()
        stack.callback(broker.stop)
        yield Site(switch, controller, broker)
