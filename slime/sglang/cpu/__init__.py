"""SGLang's engine on a CPU: which versions were tried, and the environment of the engine's process.

SGLang's wheels are built for GPUs. On a CPU without AMX its model code takes plain-torch paths, so all that is missing
are names that it imports at start-up. `stand_ins/` holds those names; `README.md` beside it says why each exists.
"""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

STAND_INS: Path = Path(__file__).parent / "stand_ins"
"""The folder that goes on the PYTHONPATH of the engine's process, and of no other process."""

TRIED_VERSIONS: tuple[str, ...] = ("0.5.23",)
"""SGLang versions with which the stand-ins were tried: log-probs and weight updates agreed with the trainer's."""


class UntriedVersionError(RuntimeError):
    """The installed SGLang is missing, or is a version with which the CPU stand-ins were not tried."""


def require_tried_version(installed: str | None = None) -> str:
    """Return the installed SGLang's version if the stand-ins were tried with it.

    Args:
        installed: the version to judge; by default that of the installed distribution `sglang`.

    Raises:
        UntriedVersionError: SGLang is absent, or another version is installed. A stand-in imitates what one version
            imports; with another one it may hide a real error.
    """
    tried = ", ".join(TRIED_VERSIONS)
    if installed is None:
        try:
            installed = version("sglang")
        except PackageNotFoundError as error:
            raise UntriedVersionError(
                f"SGLang is not installed in this environment, and --device cpu serves with it; install {tried} with "
                "requirements/runtime-cpu.txt and requirements/runtime-cpu-nodeps.txt (`make runtime` does both)"
            ) from error
    if installed not in TRIED_VERSIONS:
        raise UntriedVersionError(
            f"SGLang {installed} is installed, but the stand-ins for --device cpu were tried with {tried} only; they "
            "imitate what that version imports and could hide a real error of another one. Install "
            f"sglang=={TRIED_VERSIONS[-1]} without dependencies, or use --device cuda"
        )
    return installed


def environment(omp_threads: int = 1) -> dict[str, str]:
    """Variables that the engine's process needs to run on a CPU.

    Args:
        omp_threads: threads of torch inside the engine; one is best for small models.
    """
    return {
        "SGLANG_USE_CPU_ENGINE": "1",
        # The stand-in for triton can be imported but not compiled with, and dynamo trips over it.
        "TORCHDYNAMO_DISABLE": "1",
        "OMP_NUM_THREADS": str(omp_threads),
        "PYTHONPATH": str(STAND_INS),
    }
