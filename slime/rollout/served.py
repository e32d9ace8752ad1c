"""Models that a run serves, by their names in ``--sglang-config``, for functions of the user's, such as a judge."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar

from slime.rollout.client import GenerateClient
from slime.rollout.errors import RolloutError

_MODELS: ContextVar[Mapping[str, GenerateClient]] = ContextVar("models")


def served_model(name: str) -> GenerateClient:
    """The client of a served model; for a hook, which asks it for tokens::

        answer = await served_model("judge").generate(ids, SamplingParams(max_new_tokens=8), f"judge-{sample.index}")

    Its log-probs and its weight version are the model's own; the ids are those of its own tokenizer.

    Args:
        name: in ``--sglang-config``.

    Raises:
        RolloutError: no model has the name, or no run is going on.
    """
    models = _MODELS.get({})
    try:
        return models[name]
    except KeyError:
        known = f"the run serves {', '.join(models)}" if models else "no run is going on"
        raise RolloutError(f"there is no served model {name!r}: {known}.") from None


@contextmanager
def serve(models: Mapping[str, GenerateClient]) -> Iterator[None]:
    """Inside, `served_model` gives these."""
    token = _MODELS.set(models)
    try:
        yield
    finally:
        _MODELS.reset(token)
