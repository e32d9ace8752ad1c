"""Whole Hugging Face tensors from a model that is spread over ranks. Every rank calls, in the same order."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

import torch
import torch.distributed as dist
from megatron.core import parallel_state
from megatron.core.models.gpt import GPTModel
from torch import Tensor

from slime.megatron.model import model_tensors, place_of
from slime.weights.dimensions import HFModelConfig
from slime.weights.layouts import Rule, cuts_merged, split, unshard
from slime.weights.names import Place, local_cuts
from slime.weights.tables import rules

Take = Callable[[Tensor], Tensor]


def gather_hf_tensors(
    model: GPTModel, config: HFModelConfig, take: Take = torch.Tensor.detach
) -> Iterator[tuple[str, Tensor]]:
    """Every weight under its Hugging Face name, whole and contiguous, on every rank of the model.

    One process: tensors that keep their layout share memory with the model.

    Args:
        model: this rank's part.
        take: what to gather of a parameter; its weights, or for instance its gradient.
    """
    tensors, place = model_tensors(model), place_of(model.config)
    for rule in rules(config):
        yield from _whole(rule, tensors, place, config, take)


def gather_stage_tensors(model: GPTModel, config: HFModelConfig) -> Iterator[tuple[str, Tensor]]:
    """The weights of this rank's pipeline stage, whole and contiguous, on every rank of the stage.

    The ranks of one stage call together; nothing passes between stages. A tied embedding comes from the first one.
    """
    tensors, place = model_tensors(model), place_of(model.config)
    stage = replace(place, experts=(0, 1))
    for rule in rules(config):
        embedding = rule.layer is None and rule.megatron.startswith("embedding.")
        if not stage.holds(rule, config) or (embedding and not place.first):
            continue
        # Of another rank's expert, the own one of the same local number has the shape and the dtype.
        own = tensors[place.local_name(rule, config)].detach()
        held = place.holds(rule, config)
        cuts = _joined(rule, local_cuts(rule, own, config, place), config, place) if held else None
        for index, spec in enumerate(rule.hf):
            yield spec.name, _from_expert_rank(rule, None if cuts is None else cuts[index], spec.shape, own, config)


def _from_expert_rank(
    rule: Rule, tensor: Tensor | None, shape: tuple[int, ...], like: Tensor, config: HFModelConfig
) -> Tensor:
    """`tensor`, on all ranks that share out the experts, from the one that has the expert of `rule`."""
    size = parallel_state.get_expert_model_parallel_world_size()
    if rule.expert is None or config.experts is None or size == 1:
        if tensor is None:
            raise RuntimeError("without expert parallelism every rank of a stage has a cut of its tensors.")
        return tensor
    if tensor is None:
        tensor = torch.empty(shape, dtype=like.dtype, device=like.device)
    owner = rule.expert // (config.experts.count // size)
    dist.broadcast(tensor, group=parallel_state.get_expert_model_parallel_group(), group_src=owner)
    return tensor


def _whole(
    rule: Rule, tensors: dict[str, Tensor], place: Place, config: HFModelConfig, take: Take
) -> Iterator[tuple[str, Tensor]]:
    cuts: list[Tensor] | None = None
    if place.holds(rule, config):
        own = take(tensors[place.local_name(rule, config)])
        cuts = _joined(rule, local_cuts(rule, own, config, place), config, place)
    for index, spec in enumerate(rule.hf):
        yield spec.name, _from_owner(None if cuts is None else cuts[index], spec.shape)


def _joined(rule: Rule, cuts: list[Tensor], config: HFModelConfig, place: Place) -> list[Tensor]:
    """The whole Hugging Face tensors from the tensor-parallel ranks' cuts."""
    _, size = place.cut_of(rule)
    if size > 1 and (rule.axis is not None or cuts_merged(rule, config, size)):
        group = _cut_group(rule)
        gathered = []
        for cut in cuts:
            pieces = [torch.empty_like(cut) for _ in range(size)]
            dist.all_gather(pieces, cut, group=group)
            gathered.append(pieces)
        if cuts_merged(rule, config, size):
            return split(rule, torch.cat(gathered[0]), config)
        cuts = [unshard(pieces, spec, rule.axis) for pieces, spec in zip(gathered, rule.hf, strict=True)]
    return [cut.contiguous() for cut in cuts]


def _cut_group(rule: Rule) -> dist.ProcessGroup:
    if rule.expert is None:
        return parallel_state.get_tensor_model_parallel_group()
    return parallel_state.get_expert_tensor_parallel_group()


def _from_owner(tensor: Tensor | None, shape: tuple[int, ...]) -> Tensor:
    """`tensor` from the lowest rank that has it, on all ranks."""
    if dist.get_world_size() == 1:
        if tensor is None:
            raise RuntimeError("one process holds the whole model.")
        return tensor
    if parallel_state.get_pipeline_model_parallel_world_size() == 1 and (
        parallel_state.get_expert_model_parallel_world_size() == 1
    ):
        if tensor is None:
            raise RuntimeError("without pipeline and expert parallelism every rank has a cut of every tensor.")
        return tensor
    device = torch.device("cuda", torch.cuda.current_device()) if dist.get_backend() == "nccl" else torch.device("cpu")
    rank, dtypes = dist.get_rank(), len(_DTYPES)
    # One number says who sends and in which dtype; the lowest rank wins.
    offer = dist.get_world_size() * dtypes if tensor is None else rank * dtypes + _DTYPES.index(tensor.dtype)
    winner = torch.tensor(offer, device=device)
    dist.all_reduce(winner, op=dist.ReduceOp.MIN)
    source, kind = divmod(int(winner), dtypes)
    if tensor is None or rank != source:
        tensor = torch.empty(shape, dtype=_DTYPES[kind], device=device)
    dist.broadcast(tensor, source)
    return tensor


_DTYPES = (torch.float32, torch.bfloat16, torch.float16, torch.float64)
