"""Which tensors of a checkpoint are quantised: the matrices of linear layers, less those that lose too much."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

from slime.weights.quantise.formats import Format, Fp8Format, QuantiseError

FLOATS = {"BF16": 2, "F16": 2, "F32": 4}
"""Dtypes of weights that are quantised, as safetensors names them -> bytes of an element."""

# Parts of a module's path. Embeddings and output layers feed the loss directly; routers and an indexer's weights
# choose, and a rounded choice is another one; the small projections of a gated delta net set its decay; next-token
# heads are joined by eh_proj or mtp.fc. SGLang builds each of them without quantisation.
KEPT = re.compile(
    r"(^|\.)("
    r"embed_tokens|lm_head|shared_head|router|gate|shared_expert_gate|weights_proj|eh_proj|conv1d"
    r"|in_proj_a|in_proj_b|in_proj_ba|visual|vision_tower|[^.]*norm[^.]*"
    r")(\.|$)|^mtp\.fc$"
)
EXPERT = re.compile(r"\.experts\.\d+\.")


class Scope:
    """Decides by name.

    Args:
        shapes, dtypes: of every tensor of the checkpoint, dtypes as safetensors names them.
        ignore: further modules that stay as they are: a name with all below it, or ``re:`` and a regular expression
            that matches from the start, as compressed-tensors reads them.
    """

    def __init__(
        self,
        shapes: Mapping[str, tuple[int, ...]],
        dtypes: Mapping[str, str],
        target: Format,
        ignore: Sequence[str] = (),
    ) -> None:
        self._shapes, self._dtypes = shapes, dtypes
        self._patterns = [_pattern(rule) for rule in ignore]
        # INT4 costs attention more than it saves where routed experts are nearly all of the weights.
        self._experts_alone = not isinstance(target, Fp8Format) and any(map(EXPERT.search, shapes))
        self._refuse_fused()

    def quantised(self, name: str) -> bool:
        """True for a tensor that is replaced by its parts."""
        module = name.removesuffix(".weight")
        return (
            module != name
            and len(self._shapes[name]) == 2
            and 0 not in self._shapes[name]
            and self._dtypes[name] in FLOATS
            and not KEPT.search(module)
            and not (self._experts_alone and not EXPERT.search(name))
            and not any(pattern.match(module) for pattern in self._patterns)
        )

    def kept_modules(self) -> list[str]:
        """Modules whose matrix stays as it is, for ``quantization_config``; with ``lm_head`` also when it is tied."""
        matrices = (name for name, shape in self._shapes.items() if name.endswith(".weight") and len(shape) == 2)
        return sorted({"lm_head", *(name.removesuffix(".weight") for name in matrices if not self.quantised(name))})

    def _refuse_fused(self) -> None:
        fused = sorted(name for name, shape in self._shapes.items() if len(shape) == 3 and ".experts." in name)
        if fused:
            raise QuantiseError(
                f"{fused[0]} holds all experts of a layer in one tensor {list(self._shapes[fused[0]])}; engines read "
                "quantised experts one by one. Split it into experts.N.gate_proj, up_proj and down_proj first."
            )


def _pattern(rule: str) -> re.Pattern[str]:
    if not rule.startswith("re:"):
        return re.compile(rf"{re.escape(rule)}(\.|$)")
    try:
        return re.compile(rule.removeprefix("re:"))
    except re.error as error:
        raise QuantiseError(f"--ignore {rule}: not a regular expression: {error}.") from error


def listed(names: Iterable[str], limit: int = 8) -> str:
    """The first of `names` and how many more there are."""
    found = sorted(names)
    return ", ".join(found[:limit]) + (f" and {len(found) - limit} more" if len(found) > limit else "")
