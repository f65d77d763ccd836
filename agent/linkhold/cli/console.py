"""The console that tables and reports are printed on, with rich."""

from __future__ import annotations

from typing import TYPE_CHECKING, NoReturn

from rich import console

if TYPE_CHECKING:
    from typing import IO


class Console(console.Console):
    """Prints what it is given: names of devices and addresses are no markup and no emoji.

    A pipe that is closed early raises BrokenPipeError, as print() does; rich itself would end the
    process with 1, which is an exit code with a meaning of its own for some commands.
    """

    def __init__(
        self,
        *,
        file: IO[str] | None = None,
        stderr: bool = False,
        width: int | None = None,
        soft_wrap: bool = False,
    ) -> None:
        super().__init__(
            file=file, stderr=stderr, width=width, soft_wrap=soft_wrap,
            highlight=False, markup=False, emoji=False,
        )  # fmt: skip

    def on_broken_pipe(self) -> NoReturn:
        """Leave it to the command line what a closed pipe means."""
        raise BrokenPipeError
