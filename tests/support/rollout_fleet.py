"""A fleet's broker, set up by the very lines of docs/brokers.md, and a fleet's certificates."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import trustme

from support.broker import MOSQUITTO, wait_until

if TYPE_CHECKING:
    from support.netns import Namespace

PAGE = Path(__file__).parents[2] / "docs/brokers.md"
PORT = 8883
MAIN = """\
pid_file {folder}/mosquitto.pid
persistence true
persistence_location {folder}/
log_dest stderr
include_dir {folder}/etc/mosquitto/conf.d
"""
"""What Debian's and Ubuntu's /etc/mosquitto/mosquitto.conf says, below a folder."""


class FleetBroker:
    """One recommended broker at ``address``, and the certificates of those who use it."""

    def __init__(self, folder: Path, namespace: Namespace, address: str) -> None:
        self.folder, self.address = folder, address
        self._namespace = namespace
        folder.mkdir()
        folder.chmod(0o755)
        self._ca = trustme.CA()
        self._ca.cert_pem.write_to_path(folder / "ca.pem")
        server = self._ca.issue_cert(address)
        server.cert_chain_pems[0].write_to_path(folder / "broker.pem")
        server.private_key_pem.write_to_path(folder / "broker.key")
        self._set_up()
        self._process: subprocess.Popen[bytes] | None = None

    def _set_up(self) -> None:
        """Type the page's lines below the folder; mosquitto has the rights of its own user."""
        for name in ("conf.d", "certs"):
            (self.folder / f"etc/mosquitto/{name}").mkdir(parents=True)
        shutil.copytree(PAGE.with_suffix(""), self.folder, dirs_exist_ok=True)
        lines = [line.strip() for line in PAGE.read_text(encoding="utf-8").splitlines()]
        for line in lines:
            if line.startswith("install "):
                words = line.replace(" /etc/", f" {self.folder}/etc/").split()
                subprocess.run(words, cwd=self.folder, check=True)
        path = self.folder / "etc/mosquitto/conf.d/linkhold.conf"
        text = path.read_text(encoding="utf-8").replace(" /etc/", f" {self.folder}/etc/")
        path.write_text(text.replace(f"listener {PORT}", f"listener {PORT} {self.address}"))
        (self.folder / "mosquitto.conf").write_text(MAIN.format(folder=self.folder))
        shutil.chown(self.folder, "mosquitto")

    def start(self) -> None:
        """Start it and wait until it listens."""
        command = [MOSQUITTO, "-c", str(self.folder / "mosquitto.conf")]
        with (self.folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                self._namespace.command(*command), stdout=log, stderr=log
            )
        listening = ["ss", "-ltnH", "sport", "=", f":{PORT}"]
        wait_until(lambda: self._namespace.run(*listening), 10, "the fleet's broker listens")

    def stop(self) -> None:
        """End it."""
        if self._process is not None:
            self._process.terminate()
            self._process.wait(10)
            self._process = None

    def issue(self, name: str) -> dict[str, str]:
        """Return the paths of a certificate for ``name`` as variables of the role."""
        cert, key = self.folder / f"{name}.pem", self.folder / f"{name}.key"
        leaf = self._ca.issue_cert(common_name=name)
        cert.write_bytes(b"".join(pem.bytes() for pem in leaf.cert_chain_pems))
        leaf.private_key_pem.write_to_path(key)
        return {
            "linkhold_tls_ca": str(self.folder / "ca.pem"),
            "linkhold_tls_cert": str(cert),
            "linkhold_tls_key": str(key),
        }

    def mqtt(self) -> dict[str, object]:
        """Return ``mqtt:`` of a node that uses this broker."""
        names = {"ca": "ca.pem", "cert": "node.pem", "key": "node.key"}
        tls = {kind: f"/etc/linkhold/{name}" for kind, name in names.items()}
        return {"fleet": [{"host": self.address, "tls": tls}], "connect_jitter_s": 0}

    def observer(self) -> Path:
        """Return a file for `linkhold top --config`, with the operator's certificate."""
        mine = self.issue("operator")
        path = self.folder / "observer.yaml"
        path.write_text(
            f"brokers:\n- host: {self.address}\n  tls:\n    ca: {mine['linkhold_tls_ca']}\n"
            f"    cert: {mine['linkhold_tls_cert']}\n    key: {mine['linkhold_tls_key']}\n",
            encoding="ascii",
        )
        return path
