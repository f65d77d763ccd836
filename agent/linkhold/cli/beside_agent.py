"""Whether a running agent would undo at once what a command is about to take back."""

from __future__ import annotations

from linkhold.config.settings import Mode
from linkhold.control import ControlClient
from linkhold.model import HostError, LinkholdError
from linkhold.paths import CONTROL_SOCKET, answers_in, find_run_dir


def refuse_beside_agent() -> None:
    """Raise :class:`HostError` where a running agent would make it all again at once."""
    where = find_run_dir()
    if not answers_in(where):
        return
    client = None
    try:
        client = ControlClient(where / CONTROL_SOCKET)
        mode = str(client.ask("mode")["mode"])
    except (LinkholdError, KeyError):
        mode = "unknown"
    finally:
        if client is not None:
            client.close()
    if mode != Mode.OBSERVE.value:
        raise HostError(
            f"an agent runs here in mode {mode} and would make it all again; stop it first "
            "(its service, or the process `linkhold agent`), or set mode: observe and reload it"
        )
