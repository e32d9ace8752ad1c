"""From the flags of a run to the settings of the trainer's parts."""

from __future__ import annotations

from slime.algorithms.objective import PolicyOptions
from slime.config import Config
from slime.megatron.objective import ObjectiveSettings
from slime.megatron.optimizer import OptimizerSettings


def optimizer_settings(config: Config) -> OptimizerSettings:
    """Adam's numbers: --lr, --lr-warmup-iters, --weight-decay, --adam-*, --clip-grad."""
    return OptimizerSettings(
        lr=config.lr,
        lr_warmup_iters=config.lr_warmup_iters,
        weight_decay=config.weight_decay,
        adam_beta1=config.adam_beta1,
        adam_beta2=config.adam_beta2,
        adam_eps=config.adam_eps,
        clip_grad=config.clip_grad,
    )


def objective_settings(config: Config) -> ObjectiveSettings:
    """The policy loss: clip widths, correction (--use-tis, or IcePop by --custom-tis-function-path), averaging."""
    options = PolicyOptions(
        eps_clip=config.eps_clip,
        eps_clip_high=config.eps_clip_high,
        eps_clip_c=config.eps_clip_c,
        # The registry lets one function through, IcePop; see CorrectionFlags.
        correction="none" if not config.use_tis else "tis" if config.custom_tis_function_path is None else "icepop",
        correction_low=config.tis_clip_low,
        correction_high=config.tis_clip,
        entropy_coef=config.entropy_coef,
    )
    return ObjectiveSettings(options, config.rollout_temperature, config.calculate_per_token_loss)
