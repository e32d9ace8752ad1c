"""Rules of the checkpoint: what spoils the folder for each, parts of what it says, and what it lets pass."""

from __future__ import annotations

from collections.abc import Callable

from .bench import TEMPLATE, Bench, tensors, tokenizer_json, write_safetensors

Change = Callable[[Bench], object]
# rule, level, what spoils the bench, parts of the message, a near bench that passes
Case = tuple[str, str, Change, list[str], Change]

MOE = {"num_experts": 64, "num_experts_per_tok": 4, "moe_intermediate_size": 8}
GLM_MOE = {"n_routed_experts": 8, "n_shared_experts": 1, "num_experts_per_tok": 2, "moe_intermediate_size": 8,
           "routed_scaling_factor": 1.0, "use_qk_norm": True}  # fmt: skip
WIDE = {"num_attention_heads": 32, "num_key_value_heads": 8}
FP8 = {"quantization_config": {"quant_method": "fp8", "weight_block_size": [128, 128]}}
INT4 = {"quantization_config": {"quant_method": "compressed-tensors", "ignore": ["lm_head", "re:.*mlp.gate$"]}}
# The templates of these lines drop earlier thoughts, or show a turn in another way than they ask for it.
FORGETS = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{% if loop.last or m.role != 'assistant' %}{{ m.content }}"
    "{% else %}{{ m.content.split('</think>')[-1] }}{% endif %}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
THINKS = TEMPLATE.replace("<|im_start|>assistant\n{% endif %}", "<|im_start|>assistant\n<think>\n{% endif %}")


def engine(gpus: int, copies: int = 1, experts: int | None = None, **others: object) -> Change:
    """An engine of so many GPUs, with copies of its attention, and expert parallelism."""
    data_parallel = {"sglang_dp_size": copies, "sglang_enable_dp_attention": True} if copies > 1 else {}
    return lambda bench: bench.set(
        rollout_num_gpus_per_engine=gpus,
        actor_num_gpus_per_node=gpus,
        sglang_ep_size=experts,
        **data_parallel,
        **others,
    )


def both(*changes: Change) -> Change:
    """Several changes, one after the other."""
    return lambda bench: [change(bench) for change in changes]


def nothing(bench: Bench) -> None:
    """The bench as it is."""


def shards(*, second: bool, complete: bool = True) -> Change:
    """Weights in two files with an index."""

    def change(bench: Bench) -> None:
        whole = tensors()
        names = sorted(whole)
        first, rest = names[:4], names[4:]
        (bench.folder / "hf" / "model.safetensors").unlink()
        index = dict.fromkeys(first, "1.safetensors") | dict.fromkeys(rest, "2.safetensors")
        bench.write("hf/model.safetensors.index.json", {"weight_map": index})
        write_safetensors(bench.folder / "hf" / "1.safetensors", {name: whole[name] for name in first})
        if second:
            kept = rest if complete else rest[1:]
            write_safetensors(bench.folder / "hf" / "2.safetensors", {name: whole[name] for name in kept})

    return change


def weights(**changes: int) -> Change:
    """Weights of other dimensions."""
    return lambda bench: write_safetensors(bench.folder / "hf" / "model.safetensors", tensors(**changes))


def without(*names: str) -> Change:
    """Weights that lack some tensors."""
    kept = {name: shape for name, shape in tensors().items() if name not in names}
    return lambda bench: write_safetensors(bench.folder / "hf" / "model.safetensors", kept)


def cut(size: int) -> Change:
    """Weights whose file ends early."""

    def change(bench: Bench) -> None:
        path = bench.folder / "hf" / "model.safetensors"
        with path.open("r+b") as file:
            file.truncate(path.stat().st_size - size)

    return change


def remove(name: str) -> Change:
    """Without a file."""
    return lambda bench: (bench.folder / name).unlink()


def long(tokens: int) -> Change:
    return lambda bench: bench.set(rollout_max_prompt_len=tokens - 8)


CHECKPOINT_CASES: list[Case] = [
    ("config-file", "hf", lambda b: b.set(hf_checkpoint=str(b.folder / "none")), ["none: no such folder", "prepare"],
     nothing),
    ("config-file", "hf", remove("hf/config.json"), ["config.json: no such file"], nothing),
    ("config-file", "hf", lambda b: b.text("hf/config.json", "{"), ["not JSON"], nothing),
    ("config-file", "hf", lambda b: b.text("hf/config.json", "[]"), ["a JSON object is expected"], nothing),
    ("trainer-heads", "hf", lambda b: b.set(tensor_model_parallel_size=4),
     ["--tensor-model-parallel-size 4 does not divide the model's 2 key-value heads", "give 2"],
     lambda b: b.set(tensor_model_parallel_size=2)),
    ("trainer-heads", "hf", both(lambda b: b.config(kv_lora_rank=4), lambda b: b.set(tensor_model_parallel_size=3)),
     ["does not divide the model's 4 attention heads", "2 or 4"],
     both(lambda b: b.config(kv_lora_rank=4), lambda b: b.set(tensor_model_parallel_size=4))),
    ("context-heads", "hf", lambda b: b.set(cp_comm_type="a2a", context_parallel_size=4),
     ["key-value heads of a rank, 2 / TP 1 = 2", "--context-parallel-size 4", "give --context-parallel-size 2"],
     lambda b: b.set(cp_comm_type="a2a", context_parallel_size=2)),
    ("context-heads", "hf",
     both(lambda b: b.config(kv_lora_rank=4),
          lambda b: b.set(cp_comm_type="a2a", context_parallel_size=4, tensor_model_parallel_size=2)),
     ["attention heads of a rank, 4 / TP 2 = 2"],
     lambda b: b.set(cp_comm_type="p2p", context_parallel_size=4, tensor_model_parallel_size=2)),
    ("engine-heads", "hf", engine(8), ["over 8 GPUs", "4 attention heads", "engines of 1, 2, 4 GPUs"], engine(8, 4)),
    ("engine-heads", "hf", both(lambda b: b.config(num_attention_heads=12, num_key_value_heads=4), engine(6)),
     ["6 GPUs", "4 key-value heads"], both(lambda b: b.config(num_attention_heads=16, num_key_value_heads=4),
     engine(8))),
    ("engine-heads", "hf", both(lambda b: b.config(**WIDE, vision_config={"num_heads": 12}), engine(8)),
     ["12 attention heads of the vision tower", "engines of 1, 2, 4 GPUs"],
     both(lambda b: b.config(**WIDE, vision_config={"num_heads": 16}), engine(8))),
    ("fp8-blocks", "hf", both(lambda b: b.config(**FP8, **WIDE, intermediate_size=1536), engine(8)),
     ["the dense MLP is 1536 wide, over 8 GPUs 192 each", "128 rows", "1, 2, 4 GPUs"],
     both(lambda b: b.config(**FP8, **WIDE, intermediate_size=2048), engine(8))),
    ("fp8-blocks", "hf",
     both(lambda b: b.config(**FP8, **WIDE, **{**MOE, "moe_intermediate_size": 768}), engine(4)),
     ["each routed expert is 768 wide, over 4 GPUs 192 each", "--sglang-ep-size 2"],
     both(lambda b: b.config(**FP8, **WIDE, **{**MOE, "moe_intermediate_size": 768}), engine(4, experts=2))),
    ("fp8-blocks", "hf",
     both(lambda b: b.config(**FP8, **WIDE, **{**MOE, "moe_intermediate_size": 256}, n_shared_experts=1),
          engine(4, experts=4)),
     ["the shared expert is 256 wide, over 4 GPUs 64 each", "deepep"],
     both(lambda b: b.config(**FP8, **WIDE, **{**MOE, "moe_intermediate_size": 256}, n_shared_experts=1),
          engine(4, sglang_moe_a2a_backend="deepep"))),
    ("pipeline-layers", "hf", lambda b: b.set(pipeline_model_parallel_size=4), ["share 2 layers", "4 stages"],
     lambda b: b.set(pipeline_model_parallel_size=2)),
    ("pipeline-layers", "hf",
     both(lambda b: b.config(num_hidden_layers=47), lambda b: b.set(pipeline_model_parallel_size=2)),
     ["2 stages that share 47 layers", "--decoder-last-pipeline-num-layers 24"],
     both(lambda b: b.config(num_hidden_layers=47),
          lambda b: b.set(pipeline_model_parallel_size=2, decoder_last_pipeline_num_layers=23))),
    ("pipeline-layers", "hf",
     both(lambda b: b.config(num_hidden_layers=61),
          lambda b: b.set(pipeline_model_parallel_size=4, decoder_last_pipeline_num_layers=12)),
     ["3 stages that share 61 - 12 = 49 layers", "a multiple of 3"],
     both(lambda b: b.config(num_hidden_layers=61),
          lambda b: b.set(pipeline_model_parallel_size=4, decoder_last_pipeline_num_layers=13))),
    ("pipeline-layers", "hf",
     both(lambda b: b.config(num_hidden_layers=12),
          lambda b: b.set(pipeline_model_parallel_size=2, num_virtual_stages_per_pipeline_rank=4)),
     ["2 stages x 4 virtual stages"],
     both(lambda b: b.config(num_hidden_layers=16),
          lambda b: b.set(pipeline_model_parallel_size=2, num_virtual_stages_per_pipeline_rank=4))),
    ("pipeline-layers", "hf",
     both(lambda b: b.config(num_hidden_layers=12),
          lambda b: b.set(pipeline_model_parallel_size=3, num_virtual_stages_per_pipeline_rank=2,
                          decoder_last_pipeline_num_layers=3)),
     ["3 layers of the first or the last stage do not divide into the 2 virtual stages", "give multiples of 2"],
     both(lambda b: b.config(num_hidden_layers=12),
          lambda b: b.set(pipeline_model_parallel_size=3, num_virtual_stages_per_pipeline_rank=2,
                          decoder_last_pipeline_num_layers=4))),
    ("pipeline-layers", "hf", lambda b: b.set(decoder_last_pipeline_num_layers=1),
     ["1 has no stage between", "drop --decoder-first-pipeline-num-layers"],
     lambda b: b.set(pipeline_model_parallel_size=2, decoder_last_pipeline_num_layers=1)),
    ("experts", "hf", both(lambda b: b.config(**MOE), lambda b: b.set(expert_model_parallel_size=24)),
     ["--expert-model-parallel-size 24 does not divide the model's 64 experts", "16 or 32"],
     both(lambda b: b.config(**MOE), lambda b: b.set(expert_model_parallel_size=32))),
    ("experts", "hf", both(lambda b: b.config(**MOE), engine(3, experts=3)),
     ["--sglang-ep-size 3 does not divide the model's 64 experts"], both(lambda b: b.config(**MOE),
     engine(4, experts=4))),
    ("experts", "hf", both(lambda b: b.config(**MOE), lambda b: b.set(expert_tensor_parallel_size=3)),
     ["--expert-tensor-parallel-size 3 does not divide the experts' width of 8"],
     both(lambda b: b.config(**MOE), lambda b: b.set(expert_tensor_parallel_size=2))),
    ("experts", "hf", lambda b: b.set(expert_model_parallel_size=2), ["states no experts", "give 1"], nothing),
    ("lengths", "hf", long(600), ["up to 600 tokens exceed the 512 positions", "at most 512"], long(512)),
    ("lengths", "hf", long(600), ["512 positions"],
     both(long(600), lambda b: b.config(rope_scaling={"factor": 4.0, "original_max_position_embeddings": 512}))),
    ("response-cap", "hf", lambda b: b.config(vocab_size=151936),
     ["--rollout-max-response-len 8 with --rm-type math", "at least 512"],
     both(lambda b: b.config(vocab_size=151936), lambda b: b.set(rollout_max_response_len=512))),
    ("routing-replay", "hf", lambda b: b.set(use_rollout_routing_replay=True),
     ["describes a model without experts", "train a mixture of experts"], nothing),
    ("fp8-training", "hf",
     lambda b: b.set(fp8_format="e4m3", fp8_recipe="blockwise", first_last_layers_bf16=True),
     ["both ends of a model of 2 layers", "no layer is left"],
     both(lambda b: b.config(num_hidden_layers=3),
          lambda b: b.set(fp8_format="e4m3", fp8_recipe="blockwise", first_last_layers_bf16=True))),
    ("mtp-layers", "hf", lambda b: b.set(mtp_num_layers=1), ["describes 0 MTP layers", "train without MTP"], nothing),
    ("mtp-layers", "hf", both(lambda b: b.config(model_type="glm4_moe", num_nextn_predict_layers=2, **GLM_MOE),
                              lambda b: b.set(mtp_num_layers=2)),
     ["no more than 1 is built", "give --mtp-num-layers 1"],
     both(lambda b: b.config(model_type="glm4_moe", num_nextn_predict_layers=1, **GLM_MOE),
          lambda b: b.set(mtp_num_layers=1))),
    ("model-dimensions", "hf", lambda b: b.config(rope_parameters={"rope_theta": 1000000.0}),
     ["rope_base 1000000.0, the recipe's model file says 10000: this is another model"],
     lambda b: b.config(rope_parameters=None, rope_theta=10000)),
    ("model-dimensions", "hf", lambda b: b.config(num_hidden_layers=3), ["layers 3, the recipe's model file says 2"],
     lambda b: setattr(b, "dimensions", None)),
    ("model-dimensions", "hf", lambda b: b.config(hidden_size=256), ["hidden 256"], nothing),
    ("model-dimensions", "hf", lambda b: b.config(intermediate_size=64), ["ffn 64"], nothing),
    ("model-dimensions", "hf", lambda b: b.config(num_attention_heads=8), ["heads 8"], nothing),
    ("model-dimensions", "hf", lambda b: b.config(num_key_value_heads=4), ["kv_groups 4"], nothing),
    ("model-dimensions", "hf", lambda b: b.config(head_dim=8), ["head_dim 8"], nothing),
    ("model-dimensions", "hf", lambda b: b.config(vocab_size=65), ["vocab 65"], nothing),
    ("model-dimensions", "hf", lambda b: b.config(partial_rotary_factor=0.5), ["rotary_percent 0.5"], nothing),
    ("model-dimensions", "hf", lambda b: b.config(rms_norm_eps=1e-5), ["norm_eps 1e-05"], nothing),
    ("model-dimensions", "hf", lambda b: b.config(tie_word_embeddings=True), ["tied_embeddings True"], nothing),
    ("model-dimensions", "hf", lambda b: b.config(tie_word_embeddings=None),
     ["does not state tied_embeddings"], nothing),
    ("model-dimensions", "hf", lambda b: b.config(model_type="llama"), ["hf_model_type llama"], nothing),
    ("model-dimensions", "hf", lambda b: b.config(num_nextn_predict_layers=1), ["mtp_layers 1"], nothing),
    ("model-dimensions", "hf", lambda b: b.config(use_qk_norm=False), ["qk_norm False"],
     lambda b: b.config(use_qk_norm=True)),
    ("model-dimensions", "hf",
     both(lambda b: b.config(**MOE, n_shared_experts=1, scoring_func="softmax"),
          lambda b: b.dimensions.update(moe={"topk": 4, "shared_ffn": 8, "router_score": "sigmoid"})),
     ["moe.router_score softmax, the recipe's model file says sigmoid"],
     both(lambda b: b.config(**MOE, n_shared_experts=1, scoring_func="sigmoid", n_group=1),
          lambda b: b.dimensions.update(
              moe={"topk": 4, "shared_ffn": 8, "router_score": "sigmoid", "groups": None}))),
    ("model-dimensions", "hf",
     both(lambda b: b.config(kv_lora_rank=512, qk_nope_head_dim=128),
          lambda b: b.dimensions.update(mla={"kv_lora": 512, "qk_nope": 192})),
     ["mla.qk_nope 128, the recipe's model file says 192"],
     both(lambda b: b.config(kv_lora_rank=512, qk_nope_head_dim=192, head_dim=64),
          lambda b: b.dimensions.update(mla={"kv_lora": 512, "qk_nope": 192}))),
    ("model-dimensions", "hf",
     both(lambda b: b.config(layer_types=["linear_attention", "full_attention"]),
          lambda b: b.dimensions.update(hybrid={"linear_layers": 2})),
     ["hybrid.linear_layers 1, the recipe's model file says 2"],
     both(lambda b: b.config(layer_types=["linear_attention", "full_attention"]),
          lambda b: b.dimensions.update(hybrid={"linear_layers": 1}))),
    ("tensor-shapes", "hf", weights(layers=3), ["the weights of 3 layers, and its config.json says 2"],
     both(weights(layers=3), lambda b: b.config(num_nextn_predict_layers=1))),
    ("tensor-shapes", "hf", without("lm_head.weight"), ["no lm_head.weight", "tie_word_embeddings"],
     both(without("lm_head.weight"), lambda b: b.config(tie_word_embeddings=True))),
    ("tensor-shapes", "hf", weights(ffn=48), ["layers.0.mlp.down_proj.weight", "[16, 48]", "implies 32 on axis 1"],
     both(weights(ffn=48), lambda b: b.config(intermediate_size=48))),
    ("tensor-shapes", "hf", weights(vocab=80), ["embed_tokens.weight", "[80, 16]", "implies 64"], nothing),
    ("tensor-shapes", "hf", weights(groups=1), ["k_proj.weight", "implies 8 on axis 0"], nothing),
    ("whole-weights", "hf", shards(second=False), ["1 of the 2 files", "are missing: 2.safetensors", "resume"],
     shards(second=True)),
    ("whole-weights", "hf", shards(second=True, complete=False), ["2.safetensors lacks 1 tensor of the index"],
     shards(second=True)),
    ("whole-weights", "hf", cut(100), ["bytes, its header announces", "download this file again"], nothing),
    ("whole-weights", "hf", remove("hf/model.safetensors"), ["neither model.safetensors nor"], nothing),
    ("whole-weights", "hf", lambda b: b.text("hf/model.safetensors", "junk"), ["this is no safetensors file"], nothing),
    ("whole-weights", "hf", lambda b: b.text("hf/model.safetensors", "\x02\0\0\0\0\0\0\0[]"),
     ["not that of a safetensors file"], nothing),
    ("whole-weights", "hf",
     both(remove("hf/model.safetensors"), lambda b: b.write("hf/model.safetensors.index.json", {})), ["no weight_map"],
     nothing),
    ("whole-weights", "hf",
     lambda b: b.write("hf/model.safetensors.index.json", {"weight_map": {"a": "../1.safetensors"}}),
     ["not the name of a file beside the index"], nothing),
    ("whole-weights", "hf",
     lambda b: b.config(**MOE, quantization_config={"quant_method": "compressed-tensors", "ignore": ["lm_head"]}),
     ["does not ignore model.layers.0.mlp.gate", "the router", "as zeros"], lambda b: b.config(**MOE, **INT4)),
    ("tokenizer", "hf", remove("hf/tokenizer.json"), ["has no tokenizer"], nothing),
    ("tokenizer", "hf", lambda b: b.change("hf/tokenizer_config.json", chat_template=None),
     ["--apply-chat-template, and the tokenizer", "no chat template"],
     both(lambda b: b.change("hf/tokenizer_config.json", chat_template=None),
          lambda b: b.set(apply_chat_template=False))),
    ("tokenizer", "hf", remove("hf/tokenizer_config.json"), ["tokenizer_config.json: no such file"],
     both(remove("hf/tokenizer_config.json"), lambda b: b.text("hf/chat_template.jinja", TEMPLATE))),
    ("template", "hf", lambda b: b.template("{{ raise_exception('only one system message') }}"),
     ["cannot render one question: only one system message"], nothing),
    ("template", "hf", lambda b: b.template("{% for m in messages %}{{ m.text }}{% endfor %}"),
     ["leaves the question out"], nothing),
    ("template", "hf", lambda b: b.template("{% for m in %}"), ["cannot render one question"],
     lambda b: b.template("{% generation %}{{ messages[0]['content'] }}{% endgeneration %}")),
    ("template", "hf",
     both(lambda b: b.template("{{ bos_token }}{{ bos_token }}" + TEMPLATE),
          lambda b: b.change("hf/tokenizer_config.json", bos_token="<|endoftext|>")),
     ["begins a conversation with <|endoftext|> twice"],
     both(lambda b: b.template("{{ bos_token }}" + TEMPLATE),
          lambda b: b.change("hf/tokenizer_config.json", bos_token="<|endoftext|>"))),
    ("vocabulary", "hf", lambda b: b.config(vocab_size=40), ["the id 41, and the embedding has 40 rows"], nothing),
    ("stop-tokens", "hf", lambda b: b.change("hf/tokenizer_config.json", eos_token="<|im_start|>"),
     ["tokenizer_config.json", "<|im_start|> (1)", "<|endoftext|> (0), <|im_end|> (2)"], nothing),
    ("stop-tokens", "hf",
     both(lambda b: b.write("hf/generation_config.json", {"eos_token_id": 0}), lambda b: b.config(eos_token_id=0),
          lambda b: b.change("hf/tokenizer_config.json", eos_token={"content": "<|endoftext|>"})),
     ["the chat template", "ends a turn with <|im_end|> (2)"],
     both(lambda b: b.write("hf/generation_config.json", {"eos_token_id": 0}), lambda b: b.config(eos_token_id=0),
          lambda b: b.change("hf/tokenizer_config.json", eos_token="<|endoftext|>"),
          lambda b: b.set(apply_chat_template=False))),
    ("stop-tokens", "hf",
     both(remove("hf/generation_config.json"), lambda b: b.config(eos_token_id=None),
          lambda b: b.template("{{ messages[0]['content'] }}"),
          lambda b: b.change("hf/tokenizer_config.json", eos_token=None)),
     ["names an end token", "run to its limit"],
     both(remove("hf/generation_config.json"), lambda b: b.config(eos_token_id=None),
          lambda b: b.template("{{ messages[0]['content'] }}"),
          lambda b: b.change("hf/tokenizer_config.json", eos_token=None),
          lambda b: b.set(rollout_stop_token_ids=(2,)))),
    ("stable-prefixes", "hf",
     both(lambda b: b.template(FORGETS), lambda b: b.set(custom_generate_function_path="my.agent.generate")),
     ["with thoughts before a second question", "rewrites what it rendered before", "my.agent.generate append tokens"],
     lambda b: b.set(custom_generate_function_path="my.agent.generate")),
    ("turn-beginnings", "hf", both(lambda b: b.template(THINKS), lambda b: b.set(loss_type="sft_loss")),
     ["asks for the assistant's turn with", "<think>", "no beginning"], lambda b: b.set(loss_type="sft_loss")),
    ("load-balancing", "hf",
     both(lambda b: b.config(**MOE),
          lambda b: b.set(moe_router_load_balancing_type="aux_loss", moe_aux_loss_coeff=0.01)),
     ["--moe-router-load-balancing-type aux_loss", "0.01", "none"],
     both(lambda b: b.config(**MOE), lambda b: b.set(moe_router_load_balancing_type="none", moe_aux_loss_coeff=0.01))),
]  # fmt: skip

__all__ = ["CHECKPOINT_CASES", "Case", "Change", "both", "nothing", "remove", "tokenizer_json"]
