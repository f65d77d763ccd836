"""The console that tables and reports are printed on, with rich."""

from __future__ import annotations

from typing import TYPE_CHECKING, NoReturn

from rich import console
from rich.segment import Segment

from linkhold.wire.legible import one_line

if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import IO


class Console(console.Console):
    """Prints what it is given: names of devices and addresses are no markup and no emoji.

    What a terminal would act on in a text is shown as an escape: users choose names of programs.
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

    def render(
        self, renderable: console.RenderableType, options: console.ConsoleOptions | None = None
    ) -> Iterable[Segment]:
        """Return what is printed, without the controls that were in a text."""
        for text, style, control in super().render(renderable, options):
            lines = text.split("\n")
            yield Segment(text if control else "\n".join(map(one_line, lines)), style, control)

    def on_broken_pipe(self) -> NoReturn:
        """Leave it to the command line what a closed pipe means."""
        raise BrokenPipeError
