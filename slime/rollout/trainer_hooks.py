"""The hooks that run inside the trainer's processes, and in the push of weights; part of the table in `hooks`."""

from __future__ import annotations

from slime.rollout.hook import Hook

TRAINER_HOOKS: tuple[Hook, ...] = (
    Hook(
        "rollout-data-postprocess",
        "rollout_data_postprocess_path",
        ("args", "rollout_id", "rollout_data"),
        "sync",
        "None",
        "trainer",
        "Changes the training data of a rank in place, once log-probs and what advantages need are there.",
        """def f(args, rollout_id, rollout_data):
    print("round", rollout_id, "has", sorted(rollout_data))
""",
    ),
    Hook(
        "custom-advantage",
        "custom_advantage_function_path",
        ("args", "rollout_data"),
        "sync",
        "None",
        "trainer",
        "Sets rollout_data['advantages'] and rollout_data['returns'], a tensor for each sample's response tokens.",
        """def f(args, rollout_data):
    rewards, masks = rollout_data["rewards"], rollout_data["loss_masks"]
    rollout_data["advantages"] = [reward * mask for reward, mask in zip(rewards, masks)]
    rollout_data["returns"] = rollout_data["advantages"]
""",
    ),
    Hook(
        "custom-loss",
        "custom_loss_function_path",
        ("args", "batch", "logits", "sum_of_sample_mean"),
        "sync",
        "tuple[Tensor, dict]",
        "trainer",
        "Computes the loss of a micro-batch (--loss-type custom_loss) and metrics by name.",
        """def f(args, batch, logits, sum_of_sample_mean):
    loss = 0.0 * logits.float().sum()
    return loss, {"loss": loss.detach()}
""",
    ),
    Hook(
        "custom-tis",
        "custom_tis_function_path",
        (),
        "sync",
        "tuple[Tensor, list[Tensor], dict]",
        "trainer",
        "Weighs the policy loss by train-inference ratios; returns the loss, masks and metrics. All by keyword.",
        """def f(args, pg_loss, train_log_probs, rollout_log_probs, loss_masks, **kwargs):
    return pg_loss, loss_masks, {}
""",
        ("args", "pg_loss", "train_log_probs", "rollout_log_probs", "loss_masks", "total_lengths", "response_lengths"),
    ),
    Hook(
        "custom-pg-loss-reducer",
        "custom_pg_loss_reducer_function_path",
        ("total_lengths", "response_lengths", "masks", "per_token"),
        "sync",
        "Callable[[Tensor], Tensor]",
        "trainer",
        "Makes the function that reduces the policy term of a micro-batch to a number.",
        """def f(total_lengths, response_lengths, masks, per_token):
    return lambda values: values.sum()
""",
    ),
    Hook(
        "megatron-init",
        "custom_megatron_init_path",
        ("args",),
        "sync",
        "None",
        "trainer",
        "Runs once in every trainer process, when Megatron is initialised.",
        """def f(args):
    print("Megatron is initialised")
""",
    ),
    Hook(
        "megatron-before-log-prob",
        "custom_megatron_before_log_prob_hook_path",
        ("args", "model", "store_prefix"),
        "sync",
        "None",
        "trainer",
        "Runs before each log-prob pass; store_prefix says of which model ('' = the policy, 'ref_' = the reference).",
        """def f(args, model, store_prefix):
    print("log-probs of", store_prefix or "the policy")
""",
    ),
    Hook(
        "megatron-before-train-step",
        "custom_megatron_before_train_step_hook_path",
        ("args", "rollout_id", "step_id", "model", "optimizer", "scheduler"),
        "sync",
        "None",
        "trainer",
        "Runs before each optimizer step.",
        """def f(args, rollout_id, step_id, model, optimizer, scheduler):
    print("round", rollout_id, "step", step_id)
""",
    ),
    Hook(
        "model-provider",
        "custom_model_provider_path",
        ("pre_process", "post_process"),
        "sync",
        "the model",
        "trainer",
        "Builds the part of the model that this pipeline stage holds.",
        """def f(pre_process, post_process, vp_stage=None):
    raise NotImplementedError("build a megatron.core.models.gpt.GPTModel here")
""",
        ("vp_stage",),
    ),
    Hook(
        "update-weight-post-write",
        "custom_update_weight_post_write_path",
        ("args", "version_dir", "rollout_engines"),
        "sync",
        "None",
        "trainer",
        "Runs on every rank after a version of the weights was written to disk.",
        """def f(args, version_dir, rollout_engines):
    print("weights are in", version_dir)
""",
    ),
)
