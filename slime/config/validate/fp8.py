"""FP8 training: which flags belong together."""

from __future__ import annotations

from collections.abc import Iterator

from slime.config.config import Config
from slime.config.flags import Text
from slime.config.rule import Finding, Rule

_FORMAT, _RECIPE, _ENDS = "--fp8-format", "--fp8-recipe", "--first-last-layers-bf16"


def check_fp8(config: Config) -> Iterator[Finding]:
    """A format has scales, and nothing that only FP8 training reads stands without it."""
    if config.fp8_format is not None:
        if config.fp8_recipe is None:
            yield Finding(
                f"{_FORMAT} {config.fp8_format} without {_RECIPE}: nothing says where a scale begins and ends",
                f"add {_RECIPE} blockwise, which is how engines scale FP8 weights, or tensorwise",
                (_FORMAT, _RECIPE),
            )
        return
    for flag, given in ((_RECIPE, config.fp8_recipe), (_ENDS, config.first_last_layers_bf16 or None)):
        if given is not None:
            named = flag if given is True else f"{flag} {given}"
            yield Finding(
                f"{named} without {_FORMAT}: the trainer does not round to FP8",
                f"add {_FORMAT} e4m3 or hybrid, or drop {flag}",
                (flag, _FORMAT),
            )


RULES = (
    Rule(
        id="fp8-training",
        title=Text("FP8 训练的参数是成套的", "The flags of FP8 training belong together"),
        why=Text(
            "只写缩放方式而没有格式，训练就悄悄不用 FP8；只写格式，缩放范围就没有定义。",
            "Scales without a format would train without FP8, and not say so; a format without scales is not defined.",
        ),
        cfg=check_fp8,
    ),
)
