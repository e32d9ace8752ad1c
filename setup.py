"""Puts the facts (`recipes/`) into the built package as `slime/recipes`; all else stands in pyproject.toml."""

from setuptools import find_packages, setup

setup(
    packages=[*find_packages(include=["slime", "slime.*", "sphinx_slime_lab", "sphinx_slime_lab.*"]), "slime.recipes"],
    package_dir={"slime.recipes": "recipes"},
)
