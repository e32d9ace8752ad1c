"""What the checks look at, read once and only when a check asks for it."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from slime.config.config import Config
from slime.config.preflight.json_files import read_json, read_optional
from slime.config.preflight.machine import Machine, look
from slime.config.preflight.model import Model
from slime.config.preflight.shards import Shards, read_shards
from slime.config.preflight.template import ChatTemplate, read_template
from slime.config.preflight.vocabulary import Vocabulary, read_vocabulary

if TYPE_CHECKING:
    from slime.config.preflight.cluster import ClusterView
    from slime.config.preflight.hooks import HookTrouble
    from slime.config.preflight.prompts import PromptFile

Dimensions = Mapping[str, Any]


class Inputs:
    """A configuration with its checkpoint, its prompt files and the machines of the run.

    A part that cannot be read is None or empty here: the rule about that part says so, and the others stay silent.

    Attributes:
        config: the derived flags.
        model_dims: the dimensions of the recipe's model file under its own keys, or None.
    """

    def __init__(self, config: Config, model_dims: Dimensions | None = None) -> None:
        self.config = config
        self.model_dims = model_dims

    @property
    def folder(self) -> Path:
        """The folder of --hf-checkpoint."""
        return Path(self.config.hf_checkpoint)

    @cached_property
    def model(self) -> Model | None:
        """The dimensions of config.json."""
        try:
            return Model(self.folder / "config.json", read_json(self.folder / "config.json"))
        except ValueError:
            return None

    @cached_property
    def generation(self) -> dict[str, Any]:
        """generation_config.json."""
        return read_optional(self.folder / "generation_config.json")

    @cached_property
    def vocabulary(self) -> Vocabulary | None:
        """Tokens and ids of the tokenizer."""
        return read_vocabulary(self.folder)

    @cached_property
    def template(self) -> ChatTemplate | None:
        """The chat template."""
        return read_template(self.folder, self.vocabulary, self.config.chat_template_path)

    @cached_property
    def shards(self) -> Shards | None:
        """The headers of the weights."""
        return read_shards(self.folder)

    @cached_property
    def prompts(self) -> list[PromptFile]:
        """The prompt files with their first rows."""
        from slime.config.preflight.prompts import read_prompt_files

        return read_prompt_files(self)

    @cached_property
    def hook_troubles(self) -> list[HookTrouble]:
        """What is wrong with functions of the user's own; they are tried once."""
        from slime.config.preflight.hooks import try_hooks

        return try_hooks(self)

    @cached_property
    def machine(self) -> Machine:
        """This machine."""
        return look()

    @cached_property
    def cluster(self) -> ClusterView | None:
        """The Ray cluster that the run would join; None when it would start its own."""
        from slime.config.preflight.cluster import view_cluster

        return view_cluster(self.config)
