"""The panel of memory and the install section: the engine's numbers in both languages, readable without scripts."""

from __future__ import annotations

import re
from html import unescape
from pathlib import Path

import pytest

from slime.experiment.catalog import load_catalog
from sphinx_slime_lab.locale import LANGUAGES, Language, word
from sphinx_slime_lab.testing import Build


def _plain(markup: str) -> str:
    return re.sub(r"\s+", " ", unescape(re.sub(r"<[^>]+>", " ", markup)))


def _part(page: str, kind: str) -> str:
    """One collapsed part of the page, without its markup."""
    start = page.index(f'data-part="{kind}"')
    return page[start : page.index("</details>", start)]


@pytest.fixture(name="pages")
def pages_fixture(build: Build, tmp_path: Path) -> dict[Language, str]:
    pages: dict[Language, str] = {}
    for language in LANGUAGES:
        source = tmp_path / f"source-{language}"
        source.mkdir()
        (source / "conf.py").write_text(f'extensions = ["sphinx_slime_lab"]\nlanguage = "{language}"\n')
        body = (
            "T\n=\n\n.. lab::\n   :name: one\n\n.. slime:memory:: glm-5.3\n\n.. slime:images::\n\n.. slime:coverage::\n"
        )
        (source / "index.rst").write_text(body)
        pages[language] = build("", source=source, warnings=True).text("index.html")
    return pages


def test_every_term_stands_with_size_formula_and_source(pages: dict[Language, str]) -> None:
    catalog = load_catalog()
    for language, page in pages.items():
        panel = _part(page, "memory")
        said = _plain(panel)
        assert word(language, "memory_says") in said and word(language, "memory_checked") in said
        for phase in catalog.memory(catalog.defaults()):
            assert phase.label.get(language) in said
            for row in phase.rows:
                assert row.label.get(language) in said and f'href="{row.link}"' in panel
                assert all(_plain(one.get(language)).strip() in said for one in row.formulas)
                assert all(cell is None or cell.text in said for cell in row.cells)
            assert phase.totals is None or all(cell.text in said for cell in phase.totals)


def test_images_have_hardware_and_a_command(pages: dict[Language, str]) -> None:
    images = load_catalog().facts.images
    for language, page in pages.items():
        said = _plain(_part(page, "install"))
        assert word(language, "install_says") in said
        for image in images.images:
            assert " / ".join(image.gpus) in said
            started = f"docker run --rm -it {image.devices} {' '.join(images.run_options)} {image.reference} /bin/bash"
            assert (started in said) == (image.reference is not None)
        assert "--gpus all" not in said[said.index("MI300") : said.index("GB10")]


def test_the_table_of_known_failures_names_rules_and_reasons(pages: dict[Language, str]) -> None:
    for page in pages.values():
        table = _plain(page[page.index("slime-lab__table--coverage") :])
        assert "E01" in table and "slime check" in table
        assert re.search(r"\b76\b", table)
