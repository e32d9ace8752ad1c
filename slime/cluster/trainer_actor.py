"""The Ray actor that holds one rank of the trainer, and hands its weights over."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import ray

from slime.config import Config
from slime.data.sample import Sample
from slime.data.train_batch import TrainBatch
from slime.ports import free_port

if TYPE_CHECKING:
    from slime.megatron.trainer import MegatronTrainer

_WEIGHT_VERSION = "weight_version"  # beside the keys of the data source's state, in a checkpoint


@dataclass(frozen=True)
class Loaded:
    """What a trainer loaded; a plain record, so that the driver can read it without importing Megatron.

    Attributes:
        source: the folder that the weights came from.
        step: the round that the checkpoint was saved after; None for weights alone.
        data_cursor: the data source's position when it was saved; empty for weights alone.
        weight_version: of the last push when it was saved; 0 for weights alone. Versions go on from there whatever the
            first round is, since saved samples carry the versions that generated them.
    """

    source: str
    step: int | None
    data_cursor: dict[str, Any]
    weight_version: int = 0

    @classmethod
    def of(cls, source: str, step: int | None, saved: Mapping[str, Any]) -> Loaded:
        """From what `saved_with` made; a checkpoint that says no version was saved when versions followed rounds."""
        cursor = dict(saved)
        version = int(cursor.pop(_WEIGHT_VERSION, 0 if step is None else step + 1))
        return cls(source, step, cursor, version)


def saved_with(data_cursor: Mapping[str, Any], weight_version: int) -> dict[str, Any]:
    """What a checkpoint keeps for the driver: the data source's position and the version of the last push."""
    return {**data_cursor, _WEIGHT_VERSION: weight_version}


class TrainerActor:
    """One rank. Collective methods (all but `ping`, `endpoint`) must be called on every rank."""

    def __init__(self, config: Config, rank: int, world_size: int) -> None:
        """
        Args:
            config: the resolved configuration.
            rank: of this process.
            world_size: number of training processes.
        """
        self.config = config
        self.rank = rank
        self.world_size = world_size
        self._trainer: MegatronTrainer | None = None

    def ping(self) -> None:
        """Answer, which shows that this process lives."""

    def endpoint(self) -> tuple[str, int]:
        """Address and a free port on this node, where rank 0 lets the others find it."""
        address = str(ray.util.get_node_ip_address())
        return address, free_port(address)

    def start(self, master_addr: str, master_port: int) -> Loaded:
        """Build the model and load its weights; returns what was loaded."""
        # Here and not above: importing Megatron takes seconds, and an engine can start meanwhile.
        from slime.megatron.trainer import MegatronTrainer
        from slime.weights.source import WeightSource

        trainer = MegatronTrainer(self.config, self.rank, self.world_size, master_addr, master_port)
        self._trainer = trainer
        self._source = WeightSource(
            self.config,
            self.rank,
            trainer.device,
            trainer.model_config,
            trainer.named_hf_tensors,
            trainer.named_stage_tensors,
        )
        state = trainer.load()
        return Loaded.of(str(state.source), state.step, state.data_cursor)

    @property
    def trainer(self) -> MegatronTrainer:
        """The trainer; `start` comes first."""
        if self._trainer is None:
            raise RuntimeError("the trainer was not started")
        return self._trainer

    def train(self, batch: TrainBatch) -> dict[str, float]:
        """Train one round on this rank's batch; returns its metrics."""
        return self.trainer.train(batch)

    def log_probs(self, samples: list[Sample]) -> list[npt.NDArray[np.float32]]:
        """Log-probs of the samples' response tokens under the current weights; float32 [R] for each sample."""
        return self.trainer.log_probs(samples)

    def save(self, round_id: int, data_cursor: Mapping[str, Any]) -> str:
        """Save a checkpoint from which round `round_id + 1` resumes; returns its folder."""
        return str(self.trainer.save(round_id, data_cursor))

    def weights(self, method: str, *arguments: Any) -> Any:
        """Call a method of this rank's `WeightSource`."""
        return self._source.call(method, *arguments)

    def close(self) -> None:
        """Leave the process groups."""
        if self._trainer is not None:
            self._trainer.close()
