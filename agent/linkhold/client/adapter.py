"""What the adapters for Lightning, transformers and accelerate share.

A trainer owns its loop: an adapter connects a Hold when training begins, is called at each step,
and ends the program once the trainer has returned, because nothing may end it from within.
"""

from __future__ import annotations

import importlib
import inspect
import sys
from typing import TYPE_CHECKING, Any

from linkhold.client.agreement.torch_group import world_size
from linkhold.client.hold import Hold
from linkhold.model import LinkholdError

if TYPE_CHECKING:
    import os

    from linkhold.client.upload_handle import Upload


def imported(names: tuple[str, ...], package: str, needed_by: str) -> Any:
    """Return the first of these modules that is loaded already, else that can be.

    Raises :class:`ImportError` saying what to install when there is none.
    """
    for name in (*(name for name in names if name in sys.modules), *names):
        try:
            return importlib.import_module(name)
        except ModuleNotFoundError as error:
            if error.name is None or name.partition(".")[0] != error.name.partition(".")[0]:
                raise  # it is there, and something that it needs is not
    raise ImportError(f"{needed_by} needs the package {package}: pip install {package}")


class Adapter:
    """A Hold for the time of one training, and how the program ends after it.

    ``hold`` is one that the user made and closes; without one, ``options`` are those of
    :meth:`linkhold.client.Hold.connect`. Raises :class:`TypeError` for what that does not take.
    """

    def __init__(
        self,
        hold: Hold | None,
        options: dict[str, Any],
        *,
        upload_to: str | os.PathLike[str] | None = None,
        storage_options: dict[str, Any] | None = None,
    ) -> None:
        if hold is not None and options:
            raise TypeError(f"give a Hold, or {', '.join(options)} for one to be made; not both")
        try:
            inspect.signature(Hold.connect).bind(**options)
        except TypeError as error:
            raise TypeError(f"{type(self).__name__}: {error} (see Hold.connect)") from None
        self.stopped = False
        """Whether training was ended before its time: see :meth:`exit_if_stopped`."""
        self._given = hold
        self._options = {"agree": "torch", **options}
        self._hold = hold
        self._checked = False
        self._upload_to = upload_to
        self._storage_options = storage_options

    @property
    def hold(self) -> Hold:
        """The Hold of this training; raises :class:`LinkholdError` before the first one began."""
        if self._hold is None:
            raise LinkholdError("there is no Hold yet: it is made when training begins")
        return self._hold

    def exit_if_stopped(self) -> None:
        """End the program resumably if linkhold ended this training; else do nothing.

        Call it on every rank, after the trainer has returned. Raises :class:`SystemExit` as
        :meth:`linkhold.client.Hold.exit` does: exit code 75.
        """
        if self.stopped:
            self.hold.exit()

    def _begin(self) -> Hold:
        """Connect, as training begins; all ranks do so at the same place."""
        self.stopped = self._checked = False
        if self._given is None:
            self._hold = Hold.connect(**self._options)
        return self.hold

    def _step(self, step: int) -> Hold:
        """Mark a step boundary; raises what :meth:`Hold.step` raises.

        Raises :class:`LinkholdError` at the first one if ranks would save and stop on their own.
        """
        hold = self.hold
        hold.step(step)
        if not self._checked:
            self._checked = True
            ranks = world_size()
            if ranks > 1 and hold.ranks == 1:
                raise LinkholdError(
                    f"this Hold agrees with none of the {ranks} ranks, which would save and stop "
                    'at different steps, and hang: write Hold.connect(agree="torch")'
                )
        return hold

    def _end(self) -> None:
        """Close the Hold, as training ends; a stopped one is closed by its exit."""
        if self._hold is not None and self._given is None and not self.stopped:
            self._hold.close()

    def _end_after(self, error: BaseException) -> None:
        """Let other ranks know at once that this one failed."""
        if self._hold is not None and self._given is None:
            self._hold.__exit__(type(error), error, error.__traceback__)

    def _upload(self, path: str | os.PathLike[str]) -> Upload | None:
        """Upload a checkpoint beside training, where that was asked for."""
        if self._upload_to is None:
            return None
        return self.hold.upload_to(self._upload_to, path, storage_options=self._storage_options)
