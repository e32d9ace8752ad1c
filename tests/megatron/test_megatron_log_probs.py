"""Log-probs of Megatron's model against transformers' model of the same weights, float32."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import torch

from .megatron_cases import VOCABULARY, load_hf_model, make_hf_model, make_sequences, reference_log_probs

if TYPE_CHECKING:
    from slime.megatron.trainer import MegatronTrainer

pytestmark = pytest.mark.runtime
Make = Callable[..., "MegatronTrainer"]
TOLERANCE = 1e-5


@pytest.mark.parametrize(
    ("family", "changes"),
    [
        ("qwen3", {}),
        ("qwen3", {"tie_word_embeddings": True, "num_key_value_heads": 4, "rope_theta": 1_000_000.0}),
        ("qwen3", {"num_key_value_heads": 1, "rms_norm_eps": 1e-3}),
        ("qwen2", {}),
    ],
)
def test_log_probs_equal_transformers(make_trainer: Make, tmp_path: Path, family: str, changes: dict[str, Any]) -> None:
    folder = make_hf_model(tmp_path / "hf", family, **changes)
    model = load_hf_model(folder)
    trainer = make_trainer(folder, max_tokens_per_gpu=40, use_dynamic_batch_size=True)
    trainer.load()
    sequences = make_sequences(24)
    for sequence, found in zip(sequences, trainer.log_probs(sequences), strict=True):
        with torch.no_grad():
            expected = reference_log_probs(model, sequence)
        assert found.shape == (sequence.response_length,)
        assert float((torch.from_numpy(found) - expected).abs().max()) < TOLERANCE
    spread = torch.cat([torch.from_numpy(values) for values in trainer.log_probs(sequences)])
    assert float(spread.std()) > 1.0, "the model must not be near uniform, or the comparison says little"


def test_temperature_divides_the_logits(make_trainer: Make, hf_folder: Path) -> None:
    trainer = make_trainer(rollout_temperature=0.7)
    trainer.load()
    sequences = make_sequences(5)
    model = load_hf_model(hf_folder)
    for sequence, found in zip(sequences, trainer.log_probs(sequences), strict=True):
        with torch.no_grad():
            expected = reference_log_probs(model, sequence, temperature=0.7)
        assert float((torch.from_numpy(found) - expected).abs().max()) < TOLERANCE


def test_chunks_change_neither_values_nor_gradients(make_trainer: Make) -> None:
    from slime.megatron.log_probs import score_tokens
    from slime.megatron.packing import pack

    make_trainer()  # joins the process groups that a cut vocabulary would be read through
    packed = pack([[1, 2, 3, 4, 5, 6], [7, 8, 9]], [4, 2], torch.device("cpu"))
    base = torch.randn(1, 9, VOCABULARY, generator=torch.Generator().manual_seed(0))
    results = []
    for rows, recompute in ((None, False), (None, True), (2, False)):
        logits = base.clone().requires_grad_()
        scores = score_tokens(logits, packed, 1.3, chunk_rows=rows, recompute=recompute)
        (scores.log_probs * torch.arange(6)).sum().backward()
        results.append((scores.log_probs.detach(), scores.entropy, logits.grad))
    for other in results[1:]:
        for whole, chunked in zip(results[0], other, strict=True):
            assert whole is not None and chunked is not None
            torch.testing.assert_close(whole, chunked, rtol=0, atol=1e-6)
    probabilities = (base[0, 1] / 1.3).softmax(-1)
    entropy = -(probabilities * probabilities.log()).sum()
    assert float(results[0][1][0]) == pytest.approx(float(entropy), abs=1e-5)
    assert not results[0][1].requires_grad


def test_what_is_computed_again_is_not_kept(make_trainer: Make) -> None:
    """Logits in bfloat16 stay; float32 scores and softmax, twelve bytes an element, do not."""
    from slime.megatron.log_probs import score_tokens
    from slime.megatron.packing import pack

    make_trainer()
    packed = pack([list(range(2, 42))], [32], torch.device("cpu"))
    kept = {}
    for recompute in (False, True):
        logits = torch.randn(1, 40, VOCABULARY).bfloat16().requires_grad_()
        held: dict[int, int] = {}  # bytes by storage: what two operations keep counts once

        def keep(tensor: torch.Tensor, held: dict[int, int] = held) -> torch.Tensor:
            held[tensor.untyped_storage().data_ptr()] = tensor.nbytes
            return tensor

        with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
            score_tokens(logits, packed, 1.0, entropy_gradient=True, recompute=recompute)
        kept[recompute] = sum(held.values()) / (32 * VOCABULARY)
    assert kept[False] > 12 and kept[True] < 3


def test_the_shim_leaves_the_rest_of_the_process_alone(make_trainer: Make, hf_folder: Path) -> None:
    before = (torch.tensor, torch.zeros, torch.cuda.current_device, torch.Tensor.to, torch.Tensor.type, torch.cuda)
    model = load_hf_model(hf_folder)
    tokens = torch.arange(VOCABULARY)[None]
    with torch.no_grad():
        expected = model(tokens).logits
    make_trainer().load()
    with torch.no_grad():
        found = load_hf_model(hf_folder)(tokens).logits
    after = (torch.tensor, torch.zeros, torch.cuda.current_device, torch.Tensor.to, torch.Tensor.type, torch.cuda)
    assert before == after
    assert torch.equal(expected, found)
    assert torch.tensor([1.0]).type() == "torch.FloatTensor"


def test_weights_come_back_under_their_hugging_face_names(make_trainer: Make, hf_folder: Path) -> None:
    trainer = make_trainer()
    trainer.load()
    expected = dict(load_hf_model(hf_folder).named_parameters())
    found = dict(trainer.named_hf_tensors())
    assert set(found) == set(expected)
    for name, tensor in found.items():
        assert tensor.is_contiguous() and not tensor.requires_grad
        assert torch.equal(tensor, expected[name]), name


def test_scores_of_a_cut_vocabulary_equal_their_definition() -> None:
    """Log-prob and entropy with their gradients, against plain float64; one rank holds the whole vocabulary here.

    Two ranks are in test_layouts.py.
    """
    from slime.megatron import process
    from slime.megatron.vocab_parallel import token_scores

    process.start(process.ProcessSpec(device="cpu"))
    try:
        generator = torch.Generator().manual_seed(4)
        logits = (torch.randn(7, 31, generator=generator) * 3).requires_grad_()
        targets = torch.randint(0, 31, (7,), generator=generator)
        first, second = torch.randn(2, 7, generator=generator)
        group = torch.distributed.group.WORLD
        log_probs, entropy = token_scores(logits, targets, 0.6, group)
        ((log_probs * first).sum() + (entropy * second).sum()).backward()
    finally:
        process.stop()
    exact = logits.detach().double().requires_grad_()
    scores = (exact / 0.6).log_softmax(-1)
    expected, spread = scores[torch.arange(7), targets], -(scores.exp() * scores).sum(-1)
    ((expected * first).sum() + (spread * second).sum()).backward()
    torch.testing.assert_close(log_probs.detach().double(), expected.detach(), rtol=0, atol=2e-6)
    torch.testing.assert_close(entropy.detach().double(), spread.detach(), rtol=0, atol=2e-6)
    assert logits.grad is not None and exact.grad is not None
    torch.testing.assert_close(logits.grad.double(), exact.grad, rtol=0, atol=5e-6)
