"""Finding: the result of a check of a machine, a model or a training, and how to fix it."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Finding:
    """The result of one check.

    Attributes:
        check: name of the check.
        status: "ok"; "note" if it changes results and may be wanted; "warning" if it costs speed
            or accuracy; "problem" if it breaks something.
        message: the fact that the check found, with its layer, input or setting.
        fix: the next step for the user; empty if nothing has to be done.
    """

    check: str
    status: str
    message: str
    fix: str = ""

    def __str__(self) -> str:
        return f"{self.message}. {self.fix}." if self.fix else f"{self.message}."
