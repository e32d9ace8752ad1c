"""The install section: container images with the hardware of each and the command that starts it.

Choosing an image in the live lab sets the choice ``image``, whose notes stand in the placement; it certifies nothing.
The twin in the browser is ``js/src/ui/install.js``, which adds the buttons.
"""

from __future__ import annotations

from docutils import nodes

from slime.experiment.facts_schema import Image, ImagesFile
from sphinx_slime_lab import nodes as ours
from sphinx_slime_lab.locale import Language, word
from sphinx_slime_lab.render.parts import details
from sphinx_slime_lab.render.tables import Cell, code, table
from sphinx_slime_lab.workbench import Workbench


def command(images: ImagesFile, image: Image) -> str | None:
    """Return the command that starts a published image, None where there is none to start."""
    if image.reference is None:
        return None
    return " ".join(["docker run --rm -it", image.devices, *images.run_options, image.reference, "/bin/bash"])


def install(bench: Workbench) -> ours.lab_details:
    """Return the collapsed section of a lab."""
    return details("install", word(bench.language, "install"), *images_body(bench))


def images_body(bench: Workbench) -> list[nodes.Node]:
    """Return what the images are for, one table row each, and the versions that they pin."""
    language, images = bench.language, bench.facts.images
    heads = [word(language, key) for key in ("install_gpus", "install_image", "install_note")]
    rows = [_row(bench, images, image) for image in images.images]
    pinned = word(language, "comma").join(
        f"{one.name} {one.version or one.commit or word(language, 'unknown')}" for one in images.components
    )
    return [
        nodes.paragraph("", word(language, "install_says")),
        table(heads, rows, (24, 44, 32), "images"),
        nodes.paragraph("", word(language, "install_pinned", pinned=pinned)),
    ]


def _row(bench: Workbench, images: ImagesFile, image: Image) -> tuple[Cell, ...]:
    hardware = f"{' / '.join(image.gpus)}{word(bench.language, 'comma')}{image.architecture}"
    started = command(images, image)
    how: Cell = word(bench.language, "install_build") if started is None else [code(started)]
    return (
        f"{hardware}{word(bench.language, 'comma')}{image.toolkit}",
        how,
        _sentence(bench.text(image.note), bench.language),
    )


def _sentence(text: str, language: Language) -> str:
    """Return a note of the data as a sentence."""
    return f"{text}。" if language == "zh" else f"{text[0].upper()}{text[1:]}."
