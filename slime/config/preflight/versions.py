"""The libraries underneath: installed, and of versions that this project is tried with."""

from __future__ import annotations

import importlib.metadata
import tomllib
from collections.abc import Iterator
from pathlib import Path

from packaging.requirements import InvalidRequirement, Requirement

from slime.config.flags import Text
from slime.config.preflight.inputs import Inputs
from slime.config.preflight.machine import LIBRARIES
from slime.config.rule import Finding, Rule

_PROJECT = "slime-rl"


def requirements() -> list[Requirement]:
    """What this project asks of its extras: from its installed metadata, else from the pyproject.toml beside it."""
    texts: list[str]
    try:
        texts = importlib.metadata.requires(_PROJECT) or []
    except importlib.metadata.PackageNotFoundError:
        path = Path(__file__).resolve().parents[3] / "pyproject.toml"
        if not path.is_file():
            return []
        extras = tomllib.loads(path.read_text(encoding="utf-8"))["project"]["optional-dependencies"]
        texts = [text for extra in extras.values() for text in extra]
    found = []
    for text in texts:
        try:
            found.append(Requirement(text))
        except InvalidRequirement:
            continue
    return found


def check_versions(inputs: Inputs) -> Iterator[Finding]:
    """Each library is there, in the range that the project states."""
    for wanted in requirements():
        if wanted.name not in LIBRARIES:
            continue
        version = inputs.machine.libraries.get(wanted.name)
        if version is None:
            external = wanted.name == "sglang" and bool(inputs.config.rollout_external_engine_addrs)
            if not external:
                yield Finding(
                    f"{wanted.name} is not installed, and a run needs it",
                    f"pip install '{wanted.name}{wanted.specifier}'",
                )
        elif not wanted.specifier.contains(version, prereleases=True):
            yield Finding(
                f"{wanted.name} {version} is installed, and this project is tried with {wanted.specifier}: what it "
                "relies "
                "on may have moved",
                f"pip install '{wanted.name}{wanted.specifier}'",
                severity="warning",
            )


RULES = (
    Rule(
        id="versions",
        title=Text("依赖库在支持的版本范围内", "The libraries underneath are of supported versions"),
        why=Text(
            "训练和推理依赖 Megatron、SGLang 的内部接口，别的版本可能已经改变了它们。",
            "Trainer and engine rely on internals of Megatron and SGLang, which other versions may have changed.",
        ),
        host=check_versions,
    ),
)
