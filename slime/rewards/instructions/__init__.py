"""ifbench: whether a response follows verifiable instructions, those of IFEval and of IFBench."""

from slime.rewards.instructions.grader import InstructionGrader

__all__ = ["InstructionGrader"]
