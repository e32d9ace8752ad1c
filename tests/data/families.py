"""Chat templates in the style of four families, in few words, each with a tokenizer that has its special tokens.

The templates mark the assistant's own words with ``{% generation %}``, so that transformers computes a mask for them:
that is the reference which `slime.data.conversation` is compared with. It reads no such marks.
"""

from __future__ import annotations

from functools import cache

from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

# Drops the reasoning of earlier turns once a user speaks again; consecutive results of tools share one user turn.
QWEN3 = """\
{%- if tools %}{{ '<|im_start|>system\\n# Tools' }}{% for tool in tools %}{{ '\\n' + tool | tojson }}{% endfor %}\
{{ '<|im_end|>\\n' }}{% endif %}
{%- set last = namespace(user=-1) %}
{%- for m in messages %}{% if m.role == 'user' %}{% set last.user = loop.index0 %}{% endif %}{% endfor %}
{%- for m in messages %}
{%- if m.role == 'assistant' %}
{{- '<|im_start|>assistant\\n' }}
{%- generation %}
{%- if loop.index0 > last.user %}{{ '<think>\\n' + (m.reasoning_content or '') + '\\n</think>\\n\\n' }}{% endif %}
{{- m.content }}
{%- for call in m.tool_calls or [] %}{{ '<tool_call>\\n' + call.function | tojson + '\\n</tool_call>' }}{% endfor %}
{{- '<|im_end|>' }}
{%- endgeneration %}
{{- '\\n' }}
{%- elif m.role == 'tool' %}
{%- if loop.first or messages[loop.index0 - 1].role != 'tool' %}{{ '<|im_start|>user' }}{% endif %}
{{- '\\n<tool_response>\\n' + m.content + '\\n</tool_response>' }}
{%- if loop.last or messages[loop.index0 + 1].role != 'tool' %}{{ '<|im_end|>\\n' }}{% endif %}
{%- else %}{{ '<|im_start|>' + m.role + '\\n' + m.content + '<|im_end|>\\n' }}
{%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}
{%- if enable_thinking is defined and not enable_thinking %}{{ '<think>\\n\\n</think>\\n\\n' }}{% endif %}{% endif %}"""

LLAMA3 = """\
{{- '<|begin_of_text|>' }}
{%- for m in messages %}
{{- '<|start_header_id|>' + m.role + '<|end_header_id|>\\n\\n' }}
{%- if m.role == 'assistant' %}{% generation %}{{ m.content | trim + '<|eot_id|>' }}{% endgeneration %}
{%- else %}{{ m.content | trim + '<|eot_id|>' }}{% endif %}
{%- endfor %}
{%- if add_generation_prompt %}{{ '<|start_header_id|>assistant<|end_header_id|>\\n\\n' }}{% endif %}"""

# A turn has no end of its own: the next role's token, which the model writes, ends it.
GLM4 = """\
{{- '[gMASK]<sop>' }}
{%- for m in messages %}
{%- if m.role == 'assistant' %}{{ '<|assistant|>\\n' }}{% generation %}{{ m.content }}{% endgeneration %}
{%- elif m.role == 'tool' %}{{ '<|observation|>\\n' + m.content }}
{%- else %}{{ '<|' + m.role + '|>\\n' + m.content }}{% endif %}
{%- endfor %}
{%- if add_generation_prompt %}{{ '<|assistant|>\\n' }}{% endif %}"""

DEEPSEEK_V3 = """\
{{- '<｜begin▁of▁sentence｜>' }}
{%- for m in messages %}
{%- if m.role == 'assistant' %}{{ '<｜Assistant｜>' }}\
{% generation %}{{ m.content + '<｜end▁of▁sentence｜>' }}{% endgeneration %}
{%- elif m.role == 'user' %}{{ '<｜User｜>' + m.content }}
{%- else %}{{ m.content }}{% endif %}
{%- endfor %}
{%- if add_generation_prompt %}{{ '<｜Assistant｜>' }}{% endif %}"""

# Opens the turn with <think> and shows finished turns without it: no turn has the beginning that it was asked with.
DEEPSEEK_R1 = DEEPSEEK_V3.replace("m.content + '<｜end", "m.content.split('</think>')[-1] + '<｜end").replace(
    "{{ '<｜Assistant｜>' }}{% endif %}", "{{ '<｜Assistant｜><think>\\n' }}{% endif %}"
)

# Name: template, special tokens, the end of sequence, other tokens that stop the model.
FAMILIES = {
    "qwen3": (QWEN3, ["<|im_start|>", "<|im_end|>", "<|endoftext|>"], "<|im_end|>", ["<|endoftext|>"]),
    "llama3": (
        LLAMA3,
        ["<|begin_of_text|>", "<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>", "<|end_of_text|>"],
        "<|eot_id|>",
        ["<|end_of_text|>"],
    ),
    "glm4": (
        GLM4,
        ["[gMASK]", "<sop>", "<|system|>", "<|user|>", "<|assistant|>", "<|observation|>", "<|endoftext|>"],
        "<|endoftext|>",
        ["<|user|>", "<|observation|>"],
    ),
    "deepseek": (
        DEEPSEEK_V3,
        ["<｜begin▁of▁sentence｜>", "<｜end▁of▁sentence｜>", "<｜User｜>", "<｜Assistant｜>"],
        "<｜end▁of▁sentence｜>",
        [],
    ),
}


@cache
def tokenizer(family: str, template: str | None = None) -> PreTrainedTokenizerFast:
    """Byte-level BPE with a few merges, among them two newlines, which are what makes boundaries hard."""
    own, special, end, _ = FAMILIES[family]
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    merges = [("Ċ", "Ċ"), ("h", "e"), ("l", "l"), ("he", "ll"), ("Ġ", "t"), ("1", "2")]
    vocabulary = {token: index for index, token in enumerate([*alphabet, *("".join(pair) for pair in merges)])}
    inner = Tokenizer(models.BPE(vocab=vocabulary, merges=merges))
    inner.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    inner.decoder = decoders.ByteLevel()
    return PreTrainedTokenizerFast(
        tokenizer_object=inner,
        eos_token=end,
        additional_special_tokens=special,
        chat_template=template or own,
        clean_up_tokenization_spaces=False,
    )


def stop_ids(family: str) -> list[int]:
    """What stops the model besides the end of sequence, as generation_config.json lists it."""
    return tokenizer(family).convert_tokens_to_ids(FAMILIES[family][3])
