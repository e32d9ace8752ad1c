"""What the parts of the objective need and exclude: each rule with a case that it refuses and one that it lets pass."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from slime.config import Config, ConfigError
from slime.config.groups.algorithm import ICEPOP, MIS

Small = Callable[..., Config]
WHITE = {"normalize_advantages": True}
OPD: dict[str, Any] = {"use_opd": True, "opd_type": "megatron", "opd_teacher_load": "teacher"}
USE_MIS: dict[str, Any] = {"use_tis": True, "custom_tis_function_path": MIS}
SC: dict[str, Any] = {"use_score_centering": True, "disable_grpo_std_normalization": True}
CASES: list[tuple[dict[str, Any], list[str], dict[str, Any]]] = [
    ({"kl_coef": 0.1}, ["--kl-coef 0.1", "--use-kl-loss with --kl-loss-coef 0.1"],
     {"kl_coef": 0.1, "advantage_estimator": "reinforce_plus_plus", **WHITE}),
    ({"kl_coef": 0.1, "advantage_estimator": "rloo"}, ["rloo", "reinforce_plus_plus, "],
     {"advantage_estimator": "rloo"}),
    ({"kl_loss_coef": 0.1}, ["without --use-kl-loss"], {"kl_loss_coef": 0.1, "use_kl_loss": True}),
    ({"advantage_estimator": "gspo", "pg_loss_type": "ppo"}, ["--pg-loss-type ppo replaces"],
     {"pg_loss_type": "reinforce"}),
    ({"advantage_estimator": "cispo", "eps_clip": 1.0, "eps_clip_high": 4.0, "eps_clip_c": 3.0}, ["drop --eps-clip-c"],
     {"advantage_estimator": "cispo", "eps_clip": 1.0, "eps_clip_high": 4.0}),
    ({**SC, "pg_loss_type": "ppo"}, ["without --pg-loss-type ppo"], {**SC, "use_tis": True}),
    ({**SC, **OPD}, ["drop --use-opd"], {**SC, "pg_loss_type": "reinforce"}),
    ({**SC, **USE_MIS}, ["drop --custom-tis-function-path"], {**SC, **USE_MIS, "custom_tis_function_path": ICEPOP}),
    ({**SC, "rollout_top_p": 0.9}, ["--rollout-top-p 0.9 cuts it"], SC),
    ({"use_tis": True, "tis_level": "sequence"}, ["--tis-level: only MIS reads that", MIS],
     {**USE_MIS, "tis_level": "sequence"}),
    ({**USE_MIS, "tis_lower_bound": 3.0}, ["--tis-lower-bound 3 is not below --tis-upper-bound 2"],
     {**USE_MIS, "tis_lower_bound": 0.5}),
    ({**USE_MIS, "use_rs": True, "rs_upper_bound": 0.5}, ["--rs-lower-bound 0.5 is not below --rs-upper-bound 0.5"],
     {**USE_MIS, "use_rs": True, "rs_upper_bound": 3.0}),
    ({"critic_lr": 1e-3, "value_clip": 0.1}, ["--critic-lr, --value-clip", "ppo has a critic"],
     {"critic_lr": 1e-3, "value_clip": 0.1, "advantage_estimator": "ppo"}),
    ({"advantage_estimator": "ppo", "num_critic_only_steps": 4}, ["covers all 4 rounds", "fewer than 4"],
     {"advantage_estimator": "ppo", "num_critic_only_steps": 3}),
    ({"use_opd": True}, ["give --opd-type megatron"], OPD),
    ({**OPD, "opd_teacher_load": None}, ["give --opd-teacher-load"], {**OPD, "n_samples_per_prompt": 1}),
    ({"opd_kl_coef": 0.5}, ["add --use-opd"], {**OPD, "opd_kl_coef": 0.5}),
    ({"loss_type": "sft_loss", "use_tis": True}, ["--use-tis belongs to answers that were sampled"],
     {"loss_type": "sft_loss", "n_samples_per_prompt": 1}),
    ({"loss_type": "custom_loss"}, ["give --custom-loss-function-path"],
     {"loss_type": "custom_loss", "custom_loss_function_path": "mine.loss"}),
    ({"disable_compute_advantages_and_returns": True}, ["give --loss-type sft_loss or custom_loss"],
     {"disable_compute_advantages_and_returns": True, "loss_type": "sft_loss"}),
    ({"custom_loss_function_path": "mine.loss"}, ["give --loss-type custom_loss"], {}),
    ({**OPD, "opd_type": "sglang"}, ["--opd-type", "sglang"], OPD),
]  # fmt: skip


@pytest.mark.parametrize(
    ("bad", "words", "good"), CASES, ids=lambda one: " ".join(one)[:40] if type(one) is dict else ""
)
def test_rules_refuse_and_let_pass(small: Small, bad: dict[str, Any], words: list[str], good: dict[str, Any]) -> None:
    small(**{key: value for key, value in good.items() if value is not None})
    with pytest.raises(ConfigError) as refused:
        small(**{key: value for key, value in bad.items() if value is not None})
    for word in words:
        assert word in str(refused.value)
