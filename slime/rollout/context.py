"""What a generation function of the user's works with: tokens from the engine, text tools, budgets.

Inside such a function, `current()` gives the context; nothing is global, so rounds and data sets do not mix.
"""

from __future__ import annotations

from contextvars import ContextVar
from dataclasses import replace
from typing import Any

from slime.config import Config
from slime.data.chat_template import ChatTemplate, Message
from slime.data.conversation import following_tokens
from slime.data.sample import Sample
from slime.rollout.client import Generation, SamplingParams
from slime.rollout.errors import RolloutError
from slime.rollout.hook_results import trajectory
from slime.rollout.hook_set import HookSet
from slime.rollout.runner import SampleRunner, reset


class GenerationContext:
    """Handed to generation functions by `current`.

    Attributes:
        tokenizer: the Hugging Face tokenizer of ``--hf-checkpoint``.
        evaluation: the sample is held out.
    """

    def __init__(self, runner: SampleRunner, config: Config, evaluation: bool) -> None:
        self._runner = runner
        self._config = config
        self.tokenizer = runner.text.tokenizer
        self.evaluation = evaluation

    @property
    def stopping(self) -> bool:
        """The round has what it needs: return the sample as it is, with the status aborted."""
        return self._runner.stopping

    def encode(self, text: str) -> list[int]:
        """Text to ids, without special tokens around it."""
        return self._runner.text.encode(text)

    def decode(self, ids: list[int]) -> str:
        """Ids to text, as graders get it."""
        return self._runner.text.decode(ids)

    def budget(self, sample: Sample) -> int:
        """Tokens that the response may still grow by: the least that --rollout-max-response-len and
        --rollout-max-context-len leave. Tokens of tools count as well."""
        return self._runner.budget(sample)

    def begin(self, sample: Sample) -> list[Message]:
        """Render the messages of a prompt that nobody rendered: the sample's prompt ids, generation prompt included.

        Returns:
            The messages, for the conversation to go on with. (A text prompt is one message of the user.)

        Raises:
            ChatTemplateError: the template refuses them, or there is none.
        """
        prompt = sample.prompt
        messages = [{"role": "user", "content": prompt}] if isinstance(prompt, str) else list(prompt)
        if not sample.prompt_length:
            tools, kwargs = sample.metadata.get("tools"), sample.apply_chat_template_kwargs
            text = self._template().render(messages, tools, add_generation_prompt=True, kwargs=kwargs)
            sample.tokens = self._template().tokenize(text)
            sample.prompt_length = len(sample.tokens)
        return messages

    def add_messages(self, sample: Sample, messages: list[Message], added: list[Message]) -> None:
        """Append, masked, what the template puts between the model's turn and its next: a tool's answer, for example.

        The ids that the model sampled stay as they are; only what follows them is encoded.

        Args:
            sample: ends with the model's turn.
            messages: the conversation up to that turn, included.
            added: what answers it.

        Raises:
            ConversationError: the template rewrites earlier turns, so that no single sample shows what the model saw.
        """
        tools, kwargs = sample.metadata.get("tools"), sample.apply_chat_template_kwargs
        ids = following_tokens(self._template(), messages, added, sample.tokens[-1], tools, kwargs)
        sample.append_response_tokens(ids, trainable=False, text=self.decode(ids))

    def _template(self) -> ChatTemplate:
        if self.tokenizer is None:
            raise RolloutError("messages are rendered by a tokenizer's chat template: name one with --hf-checkpoint.")
        return ChatTemplate(self.tokenizer, self._config.apply_chat_template_kwargs, self._runner.text.stop_token_ids)

    def response_text(self, answer: Generation) -> str:
        """Text of what was generated, without the token that ended it."""
        return self._runner.text.response_text(answer.output_ids)

    async def generate(self, sample: Sample, input_ids: list[int], sampling_params: dict[str, Any]) -> Generation:
        """Sample tokens after `input_ids`; retried and bounded in number like every other request of the round.

        Args:
            sample: in whose name; its number makes the seed.
            input_ids: everything so far, prompt included. Send the ids that the engine gave, never text that was
                tokenised again: other ids for the same text have other log-probs.
            sampling_params: as the hook got it, or changed; ``max_new_tokens`` is cut to the sample's budget.

        Returns:
            Ids, log-probs and why it ended. "abort" with no ids means that the round is over.

        Raises:
            RolloutError: parameters that are not known, or an answer that breaks its contract.
        """
        try:
            sampling = SamplingParams.from_dict(sampling_params)
        except ValueError as error:
            raise RolloutError(f"{sample.name()}: {error}") from error
        limit = min(sampling.max_new_tokens, self._runner.budget(sample))
        if limit < 1:
            return Generation([], [], "length", "")
        own = self._runner.options.sampling
        sampling = replace(sampling, max_new_tokens=limit, top_logprobs_num=own.top_logprobs_num, routes=own.routes)
        return await self._runner.request(sample, input_ids, sampling)

    def append(self, sample: Sample, generation: Generation) -> Sample:
        """Add generated tokens to the sample's response, with log-probs, text, weight version and status."""
        return self._runner.append(sample, generation)


_CURRENT: ContextVar[GenerationContext] = ContextVar("generation context")


def current() -> GenerationContext:
    """The context of the generation function that is running.

    Raises:
        RolloutError: outside of one.
    """
    try:
        return _CURRENT.get()
    except LookupError:
        raise RolloutError(
            "there is no generation context here: only a --custom-generate-function-path has one."
        ) from None


class CustomRunner(SampleRunner):
    """A runner whose trajectories are made by generation functions of the user's.

    A function with the attribute ``resumes = True`` gets a sample that an earlier round left unfinished as it is; for
    others it begins again.
    """

    def bind(self, config: Config, hooks: HookSet, evaluation: bool, path: str | None) -> CustomRunner:
        """Say whose function it is, at `path`, of the run or of the data set; a sample may name its own."""
        self._config = config
        self._hooks = hooks
        self._path = path
        self._context = GenerationContext(self, config, evaluation)
        return self

    async def _trajectory(self, sample: Sample) -> list[Sample]:
        path = sample.generate_function_path or self._path
        if path is None:
            return await super()._trajectory(sample)
        hook = self._hooks.at("custom-generate", path)
        if sample.response_length and not getattr(hook.function, "resumes", False):
            reset(sample)
        sampling = replace(self.options.sampling, max_new_tokens=max(self.budget(sample), 1)).to_dict()
        token = _CURRENT.set(self._context)
        try:
            pieces: list[Sample] = await hook(
                sample.name(),
                trajectory(sample),
                self._config,
                sample,
                sampling,
                evaluation=self._context.evaluation,
            )
        finally:
            _CURRENT.reset(token)
        return pieces
