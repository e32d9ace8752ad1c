"""How a run fails, apart from wrong input."""

from __future__ import annotations

from ray.exceptions import RayError, RayTaskError


class RunFailedError(RuntimeError):
    """A process of the run ended, or could not do its work; the message says which and why, with the end of its log."""


def cause_of(error: BaseException) -> BaseException:
    """The exception that an actor's method raised, taken out of Ray's wrapper; other exceptions as they are."""
    if isinstance(error, RayTaskError) and isinstance(error.cause, BaseException):
        return error.cause
    return error


def describe_death(what: str, error: RayError) -> str:
    """One sentence for an actor that is gone, from Ray's own report."""
    report = " ".join(str(error).split())
    return f"{what} ended unexpectedly; Ray says: {report}"
