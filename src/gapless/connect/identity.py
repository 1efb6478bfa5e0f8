"""Names of pipelines and sinks, which make the operation ids of their commits. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from gapless.errors import InvalidOption
from gapless.model.operation import SequenceId

RESERVED = ("gapless.", "spark:")
"""What names of pipelines may not begin with: operation ids of ours do."""
LONGEST = 200
"""Characters of a name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkIdentity:
    """One sink of one pipeline: checkpoints of another, or of one that was made again under its name, are not its own."""

    pipeline: str
    sink: str
    generation: int = 1
    """Grows each time the pipeline is made anew from nothing, with an empty checkpoint store, so that its first checkpoints are not taken for the
    old ones.
    """

    def __post_init__(self) -> None:
        """Raise InvalidOption for a name that a log cannot hold apart from others."""
        _check_name("pipeline", self.pipeline)
        _check_name("sink", self.sink)
        if type(self.generation) is not int or self.generation < 1:
            raise InvalidOption(
                f"generation={self.generation!r} is no number of a generation",
                why="The first is 1, and each time a pipeline is made anew it is one more",
                fix="Pass a whole number from 1",
                option="generation",
                value=self.generation,
            )

    @property
    def app(self) -> str:
        """What the log calls the sequence of its checkpoints.

        >>> SinkIdentity(pipeline="orders", sink="trips").app
        'orders/trips#1'
        """
        return f"{self.pipeline}/{self.sink}#{self.generation}"

    def operation(self, checkpoint_id: int) -> SequenceId:
        """The operation id of a checkpoint's commit; raises InvalidOption for a number that is none."""
        if type(checkpoint_id) is not int or not 0 <= checkpoint_id < 2**63:
            raise InvalidOption(
                f"checkpoint_id={checkpoint_id!r} is no number of a checkpoint",
                why="Checkpoints of one sink are counted, and each number is larger than all before it",
                fix="Pass a whole number from 0",
                option="checkpoint_id",
                value=checkpoint_id,
            )
        return SequenceId(self.app, checkpoint_id)


def _check_name(option: str, name: object) -> None:
    if not isinstance(name, str) or not name:
        raise _refuse(
            option, name, "It names whose commits these are, and so is a text", f'Pass one, such as {option}="orders"'
        )
    if name.startswith(RESERVED):
        raise _refuse(option, name, f"Names that begin with {' or '.join(map(repr, RESERVED))} are ours", "Choose another name")
    if len(name) > LONGEST or not name.isprintable() or set(name) & {"/", "#"}:
        why = f"A name has at most {LONGEST} printable characters, and no '/' or '#', which divide it from the others"
        raise _refuse(option, name, why, "Choose another name")


def _refuse(option: str, value: object, why: str, fix: str) -> InvalidOption:
    shown = repr(value) if len(str(value)) <= 60 else f"{str(value)[:60]!r}…"
    return InvalidOption(f"{option}={shown} cannot name it", why=why, fix=fix, option=option, value=value)
