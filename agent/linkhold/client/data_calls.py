"""What a Hold offers for data."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from linkhold.client.data.gate import Gate
    from linkhold.client.data.loader import Counts
    from linkhold.client.pause import Pause
    from linkhold.client.settings import Settings
    from linkhold.client.voice import Voice


MOST_LOADERS = 256
"""So many loaders are counted together, the newest ones."""


class DataCalls:
    """The data side of a :class:`linkhold.client.Hold`, which sets the fields."""

    _settings: Settings
    _voice: Voice
    _pause: Pause
    _read: tuple[Counts, ...] = ()

    def data(self, loader: Any, *, max_wait_s: float = 900.0, max_rebuilds: int = 20) -> Any:
        """Return a torch DataLoader's batches, in its order, through outages and dead workers.

        A read that fails for the network or the storage is tried again in its worker, on the same
        indices, for at most ``max_wait_s`` seconds; there is no attempt while the node's network
        is down. Workers that were killed are replaced at the same position, at most
        ``max_rebuilds`` times in one pass, then :class:`linkhold.client.data.WorkersLost` is
        raised. No batch comes twice and none is left out. What comes back looks like the loader,
        and counts: ``delivered``, ``retries``, ``waited_s``, ``waiting``, ``rebuilds``.

        A loader that accelerate prepared is changed in place and returned.

        Raises :class:`TypeError` or :class:`ValueError` for an argument that is wrong.
        """
        from linkhold.client import data  # noqa: PLC0415 - who needs no data pays nothing

        if isinstance(max_rebuilds, bool) or not isinstance(max_rebuilds, int):
            raise TypeError(f"max_rebuilds: {max_rebuilds!r} is no whole number")
        if max_rebuilds < 0:
            raise ValueError(f"max_rebuilds: {max_rebuilds} is less than 0")
        made = data.surviving(
            loader,
            policy=data.policy_for(max_wait_s),
            gate=self._data_gate(),
            voice=self._voice,
            max_rebuilds=max_rebuilds,
            on_wait=self._pause.feed,
        )
        counts = getattr(made, "base_dataloader", made).counts
        if counts not in self._read:
            self._read = (*self._read, counts)[-MOST_LOADERS:]
        return made

    def _data_gate(self) -> Gate:
        """Return what says whether a read can succeed; it goes to the workers."""
        from linkhold.client.data.gate import StateGate  # noqa: PLC0415 - as above

        return StateGate(self._settings.run_dir)
