"""PPO's critic: a model of its own, the policy's architecture with one output instead of a vocabulary."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path

import torch
from megatron.core.dist_checkpointing import load_tensors_metadata
from megatron.core.models.gpt import GPTModel
from torch import Tensor

from slime.config import Config
from slime.megatron.checkpoint import TrainState, load_checkpoint, save_checkpoint
from slime.megatron.checkpoint_writer import CheckpointWriter
from slime.megatron.forward import Scorable, read_responses
from slime.megatron.log_probs import token_values
from slime.megatron.model import build_model, load_hf_weights
from slime.megatron.objective import MicroBatch, evaluate_values
from slime.megatron.optimizer import build_optimizer, wrap_model
from slime.megatron.settings import compute_settings, critic_optimizer_settings, objective_settings
from slime.megatron.step import StepRunner
from slime.weights.dimensions import HFModelConfig
from slime.weights.tracker import CheckpointError, checkpoint_folder

FOLDER = "critic"
HEAD_KEY = "output_layer.weight"


class ValueHead(torch.nn.Linear):
    """Takes the place of Megatron's output layer: hidden states [width, rows, hidden] to values [width, rows, 1].

    Starts at zero: every value is then 0, and the first returns are what the rewards say.
    """

    def __init__(self, hidden: int, device: torch.device, dtype: torch.dtype) -> None:
        super().__init__(hidden, 1, bias=False, device=device, dtype=dtype)
        torch.nn.init.zeros_(self.weight)

    def forward(
        self, hidden_states: Tensor, weight: Tensor | None = None, runtime_gather_output: bool | None = None
    ) -> tuple[Tensor, None]:
        """Megatron passes the tied embedding and a gather option, which a head of one output has no use for."""
        return super().forward(hidden_states), None


class Critic:
    """Model, optimizer and steps of the critic. Every data-parallel rank has one; methods are collective."""

    def __init__(self, config: Config, model_config: HFModelConfig, device: torch.device, dtype: torch.dtype) -> None:
        """Build the model; `load` comes next. Needs `slime.megatron.process.start`."""
        self.config, self.model_config, self.device, self.dtype = config, model_config, device, dtype
        self._model: GPTModel = build_model(model_config, device, compute_settings(config, dtype))

    def load(self, save: Path | None, step: int | None) -> Path:
        """Weights and optimizer state; returns the folder that they came from.

        Args:
            save: --load of a run that is resumed; its critic stands in a folder of its own there.
            step: of the policy's checkpoint that is resumed, or None to start from --critic-load, else --ref-load.

        Raises:
            CheckpointError: the critic of that step is missing, or a checkpoint does not fit.
        """
        if step is not None and save is not None:
            self._replace_head()
            self._build_optimizer()
            return load_checkpoint(
                save / FOLDER,
                self._model,
                self._state,
                step,
                optimizer=not self.config.no_load_optim,
                random_state=not self.config.no_load_rng,
            ).source
        source = Path(self.config.critic_load or self.config.ref_load or "")
        start = None if self.config.critic_load else self.config.ref_ckpt_step
        if (source / "config.json").is_file():
            load_hf_weights(self._model, self.model_config, source)
            self._replace_head()
        elif _has_value_head(source, start):
            self._replace_head()
            load_checkpoint(source, self._model, None, start)
        else:
            load_checkpoint(source, self._model, None, start)
            self._replace_head()
        self._build_optimizer()
        return source

    def _replace_head(self) -> None:
        self._model.output_layer = ValueHead(self.model_config.hidden, self.device, self.dtype)
        self._model.share_embeddings_and_output_weights = False

    def _build_optimizer(self) -> None:
        settings = critic_optimizer_settings(self.config)
        wrapped = wrap_model(self._model, settings)
        optimizer, scheduler = build_optimizer(wrapped, settings, self.dtype)
        self._state = TrainState(optimizer, scheduler)
        evaluate = partial(evaluate_values, settings=objective_settings(self.config))
        self._runner = StepRunner(wrapped, optimizer, scheduler, evaluate)

    def values(self, samples: Sequence[Scorable], chunks: Sequence[Sequence[int]] | None = None) -> list[Tensor]:
        """Value of the state before each response token, float32 [R_i] on the CPU for each sample."""
        return read_responses(self._model, samples, self.device, self.config.max_tokens_per_gpu, token_values, chunks)

    def step(self, batches: Sequence[MicroBatch]) -> dict[str, float]:
        """One optimizer step; returns its metrics over all ranks: value_loss, value_clipfrac, grad_norm, lr, loss.

        Raises:
            NonFiniteStepError: the step is refused; see `StepRunner.run`.
        """
        return self._runner.run(batches)[0]

    def save(self, folder: Path, step: int, writer: CheckpointWriter) -> Path:
        """Write a checkpoint below the run's folder for checkpoints; `load` finds it by its step."""
        optimizer = not self.config.no_save_optim
        return save_checkpoint(folder / FOLDER, step, self._model, self._state, writer=writer, optimizer=optimizer)


def _has_value_head(source: Path, step: int | None) -> bool:
    """Whether a Megatron checkpoint is a critic's: its output layer has one row."""
    folder = checkpoint_folder(source, step)
    found = load_tensors_metadata(str(folder)).get(HEAD_KEY)
    if found is None:
        raise CheckpointError(f"{folder} has no {HEAD_KEY}, so it is neither a policy's nor a critic's checkpoint.")
    return int(found.global_shape[0]) == 1
