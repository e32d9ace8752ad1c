"""Chinese pages of a furo site are Chinese, the theme's own controls too."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

from sphinx_slime_lab import theme_words
from sphinx_slime_lab.testing import Build


@pytest.fixture(name="source")
def source_fixture(tmp_path: Path) -> Path:
    """Two short pages, so that there is a next one, with a table of contents of their own."""
    folder = tmp_path / "words"
    folder.mkdir()
    (folder / "conf.py").write_text('extensions = ["sphinx_slime_lab"]\nhtml_theme = "furo"\n')
    (folder / "index.rst").write_text("T\n=\n\nA\n-\n\nB\n-\n\n.. toctree::\n\n   other\n")
    (folder / "other.rst").write_text("O\n=\n")
    return folder


def test_furo_speaks_chinese(build: Build, source: Path) -> None:
    """Nothing that the theme lets one translate stays English; an English site is untouched."""
    english = ("On this page", "Skip to content", "Back to top", ">Next<", ">Home<")
    pages = build("", source=source, language="zh_CN")
    text = pages.text("index.html") + pages.text("other.html")
    assert [one for one in english if one in text] == []
    for word in ("本页目录", "跳到正文", "首页"):
        assert word in text
    other = build("", source=source, language="en")
    assert "On this page" in other.text("index.html")


def test_every_word_is_one_that_furo_asks_for() -> None:
    """A word that the theme no longer has is taken out of the list."""
    furo = pytest.importorskip("furo")
    files = Path(furo.__file__).parent
    asked = " ".join(path.read_text() for path in [*files.rglob("*.html"), files / "navigation.py"])
    asked = re.sub(r"\s+", " ", asked)
    listed = yaml.safe_load(Path(theme_words.__file__).with_name("locale").joinpath("furo_zh.yaml").read_text())
    assert [word for word in listed if word not in asked] == []
    assert all(re.search("[一-鿿]", word) for word in listed.values())
