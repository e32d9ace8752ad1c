"""Where metrics go: one JSON line per record, TensorBoard, and a readable line per round."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    from torch.utils.tensorboard import SummaryWriter


class MetricsWriter:
    """Writes metrics to a JSONL file and to TensorBoard; either may be absent. Use it as a context manager."""

    def __init__(self, metrics_file: str | None = None, tensorboard_dir: str | None = None) -> None:
        """
        Args:
            metrics_file: file that records are appended to, so that a resumed run continues it.
            tensorboard_dir: folder for TensorBoard's event files.
        """
        self._file: TextIO | None = None
        self._board: SummaryWriter | None = None
        if metrics_file is not None:
            Path(metrics_file).parent.mkdir(parents=True, exist_ok=True)
            self._file = Path(metrics_file).open("a", encoding="utf-8")  # noqa: SIM115 (closed by `close`)
        if tensorboard_dir is not None:
            from torch.utils.tensorboard import SummaryWriter

            self._board = SummaryWriter(tensorboard_dir)

    def write(self, round_id: int, metrics: Mapping[str, float]) -> None:
        """Record the metrics of a round.

        A value that is not finite is written as null, because JSON has no other way to say it.

        Args:
            round_id: number of the round; the step of every curve. -1 stands for before the first round.
            metrics: values by name.
        """
        if self._file is not None:
            finite = {name: value if math.isfinite(value) else None for name, value in metrics.items()}
            self._file.write(json.dumps({"round": round_id, **finite}) + "\n")
            self._file.flush()
        if self._board is not None:
            for name, value in metrics.items():
                self._board.add_scalar(name, value, round_id)

    def close(self) -> None:
        """Flush and close."""
        if self._file is not None:
            self._file.close()
        if self._board is not None:
            self._board.close()

    def __enter__(self) -> MetricsWriter:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
