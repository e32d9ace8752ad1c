"""Kill and resume: a run that was stopped sees the prompts, and the partial responses, of one that was not.

The loop below draws more than it needs, drops groups by a filter, and leaves groups unfinished, as generation does.
What happens to a group depends on its number alone, so that two runs can be compared; the order in which groups come
back depends on the run, as it does on a real machine.
"""

from __future__ import annotations

import json
import random
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from slime.data.buffer import Group, oldest_first, stalest_first
from slime.data.prompts import Prompt, PromptDataset
from slime.data.sample import Sample, Status
from slime.data.source import PromptSource

ROUNDS, TARGET, REFILL = 6, 3, 4
Seen = list[tuple[int, list[dict[str, Any]]]]


def new_source(stalest: bool) -> PromptSource:
    prompts = [Prompt(str(i), [i + 10], i, {"row": i}) for i in range(7)]
    dataset = PromptDataset(prompts, "f")
    return PromptSource(dataset, 2, 5, True, stalest_first if stalest else oldest_first)


def one_round(source: PromptSource, round_id: int, outcomes: list[str], order: random.Random) -> Seen:
    """Groups that train in this round, with all that is in them."""
    accepted: list[Group] = []
    unfinished: list[Group] = []
    while len(accepted) < TARGET:
        for group in source.get_groups(REFILL):
            fate = outcomes[(group[0].group_index or 0) % len(outcomes)]
            if group[0].response_length and fate == "partial":
                fate = "keep"  # the second time it is finished
            if fate == "partial":
                unfinished.append([continued(sample, round_id) for sample in group])
            elif fate == "keep":
                accepted.append(group)
    back = [*unfinished, *accepted[TARGET:]]
    order.shuffle(back)
    source.add_groups(back)
    return [(round_id, [sample.to_dict() for sample in group]) for group in accepted[:TARGET]]


def continued(sample: Sample, round_id: int) -> Sample:
    index = sample.index or 0
    sample.append_response_tokens([index, round_id], [-0.25, -0.5], text="..", weight_version=str(round_id))
    sample.status = Status.ABORTED
    return sample


def run(first: int, last: int, source: PromptSource, outcomes: list[str], seed: int) -> Seen:
    order = random.Random(seed)
    return [seen for round_id in range(first, last) for seen in one_round(source, round_id, outcomes, order)]


@settings(max_examples=150, deadline=None, derandomize=True)
@given(
    st.lists(st.sampled_from(["keep", "drop", "partial"]), min_size=1, max_size=11).filter(
        lambda fates: "keep" in fates
    ),
    st.integers(0, ROUNDS),
    st.booleans(),
    st.integers(0, 3),
)
def test_a_resumed_run_sees_what_an_uninterrupted_one_sees(
    outcomes: list[str], killed_after: int, stalest: bool, seed: int
) -> None:
    whole = run(0, ROUNDS, new_source(stalest), outcomes, seed)
    stopped = new_source(stalest)
    begun = run(0, killed_after, stopped, outcomes, seed + 1)
    saved = json.dumps(stopped.state_dict())
    run(killed_after, ROUNDS, stopped, outcomes, seed)  # what the killed process did after the save is lost
    resumed = new_source(stalest)
    resumed.load_state_dict(json.loads(saved))
    assert begun + run(killed_after, ROUNDS, resumed, outcomes, seed + 2) == whole


def test_no_prompt_is_trained_twice_or_left_out() -> None:
    """Over all epochs each prompt is taken as often as any other, give or take the current epoch."""
    outcomes = ["keep", "partial", "keep", "partial", "partial"]
    source = new_source(False)
    numbers = [group[1][0]["group_index"] for group in run(0, 40, source, outcomes, 0)]
    assert len(set(numbers)) == len(numbers)
    waiting = {group[0].group_index for group in source.buffer.groups}
    assert set(numbers) | waiting == set(range(source.group_index))
