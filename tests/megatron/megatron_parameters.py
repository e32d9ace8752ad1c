"""Count the parameters that Megatron-Core itself gives each rank of a layout; run as a program, one case a line.

The process group is torch's fake one, which has as many ranks as it is told and moves nothing, so that a layout of
eight GPUs is built rank by rank in one process. Parameters do not depend on context parallelism or the dispatcher of
tokens, which are left at what a CPU can build.
"""

from __future__ import annotations

import json
import sys
from typing import Any

import torch
import torch.distributed as dist
from torch.testing._internal.distributed.fake_pg import FakeStore

from slime.megatron import cpu_shim


def count(case: dict[str, Any], rank: int) -> tuple[int, int]:
    """The pipeline stage of ``rank`` and its number of parameters."""
    from megatron.core import parallel_state
    from megatron.core.models.gpt import GPTModel
    from megatron.core.models.gpt.gpt_layer_specs import get_gpt_decoder_block_spec
    from megatron.core.tensor_parallel.random import model_parallel_cuda_manual_seed
    from megatron.core.transformer.transformer_config import TransformerConfig

    sizes = {
        "tensor_model_parallel_size": case["tp"],
        "pipeline_model_parallel_size": case["pp"],
        "expert_model_parallel_size": case["ep"],
        "expert_tensor_parallel_size": case["etp"],
    }
    dist.init_process_group("fake", store=FakeStore(), rank=rank, world_size=case["world"])
    parallel_state.initialize_model_parallel(
        **sizes, context_parallel_size=case["cp"], create_gloo_process_groups=False
    )
    model_parallel_cuda_manual_seed(1)
    config = TransformerConfig(
        **sizes,
        **case["config"],
        num_layers_in_first_pipeline_stage=case["first"],
        num_layers_in_last_pipeline_stage=case["last"],
        normalization="RMSNorm",
        gated_linear_unit=True,
        activation_func=torch.nn.functional.silu,
        add_bias_linear=False,
        pipeline_dtype=torch.float32,
        moe_token_dispatcher_type="allgather",
        use_cpu_initialization=True,
        perform_initialization=False,
        gradient_accumulation_fusion=False,
        bias_activation_fusion=False,
        bias_dropout_fusion=False,
        apply_rope_fusion=False,
        masked_softmax_fusion=False,
        persist_layer_norm=False,
        cuda_graph_scope=[],
    )
    model = GPTModel(
        config=config,
        transformer_layer_spec=get_gpt_decoder_block_spec(config, use_transformer_engine=False),
        vocab_size=case["vocab"],
        max_sequence_length=64,
        position_embedding_type="rope",
        share_embeddings_and_output_weights=case["tied"],
        pre_process=parallel_state.is_pipeline_first_stage(),
        post_process=parallel_state.is_pipeline_last_stage(),
    )
    stage = parallel_state.get_pipeline_model_parallel_rank()
    parallel_state.destroy_model_parallel()
    dist.destroy_process_group()
    return stage, sum(parameter.numel() for parameter in model.parameters())


def main() -> None:
    """For each case the numbers of parameters by stage; ranks of one stage have the same."""
    cpu_shim.apply()
    for line in sys.stdin:
        case = json.loads(line)
        found: dict[int, set[int]] = {}
        for rank in range(case["world"]):
            stage, parameters = count(case, rank)
            found.setdefault(stage, set()).add(parameters)
        print(json.dumps([sorted(found[stage]) for stage in sorted(found)]), flush=True)


if __name__ == "__main__":
    main()
