"""What the built page offers without JavaScript, and what it never does."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser
from pathlib import Path

from slime.experiment.catalog import load_catalog
from sphinx_slime_lab.testing import Build, Built

VOID = {"area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "source", "track", "wbr"}


class Page(HTMLParser):
    """Just enough of a document: tags with attributes, and the text of ``pre`` elements."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.pre: list[str] = []
        self._in_pre = False
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag == "pre":
            self._in_pre = True
            self.pre.append("")

    def handle_endtag(self, tag: str) -> None:
        if tag == "pre":
            self._in_pre = False

    def handle_data(self, data: str) -> None:
        if self._in_pre:
            self.pre[-1] += data


def test_shell_of_page_file_and_engine_are_the_same_bytes(build: Build, recipes: Path) -> None:
    """The text of the page, the file behind the link and what the engine gives are one."""
    site = build("basic", slime_lab_recipes=str(recipes))
    catalog = load_catalog(recipes)
    state = catalog.sanitise({"model": "tiny"}).state
    wanted = catalog.artifacts(state, catalog.provenance())
    folder = site.output / "_downloads/slime-lab/index/home-lab"
    page = Page(site.text("index.html"))
    for name, text in wanted.items():
        assert (folder / name).read_bytes() == text.encode()
        assert text in page.pre
        hrefs = [attrs["href"] for tag, attrs in page.tags if tag == "a" and attrs.get("download") == name]
        assert hrefs and (site.output / str(hrefs[0])).read_bytes() == text.encode()


def test_scripts_only_where_a_lab_is_live(site: Built) -> None:
    """Only pages with a ``lab`` load the scripts; a recipe stands still."""
    live = {
        name: "slime-lab-data.js" in site.text(name)
        for name in ("index.html", "rest.html", "recipes.html", "plain.html")
    }
    assert live == {"index.html": True, "rest.html": True, "recipes.html": False, "plain.html": False}
    assert not re.search(r'<script[^>]*type="module"', site.text("index.html"))


def test_nothing_comes_from_another_host(site: Built) -> None:
    """No script, style, image or frame of any page has an address with a host; no style imports one."""
    for path in site.output.rglob("*.html"):
        for tag, attrs in Page(path.read_text(encoding="utf-8")).tags:
            if tag in ("script", "link", "img", "iframe", "object", "embed", "source", "use"):
                address = attrs.get("src") or attrs.get("href") or attrs.get("data") or ""
                assert not re.match(r"(?:[a-z]+:)?//", address), f"{path.name}: <{tag}> {address}"
    style = (site.output / "_static/slime-lab.css").read_text(encoding="utf-8")
    assert "@import" not in style and "http" not in style


def test_picture_has_title_description_and_unique_ids(site: Built) -> None:
    """The SVG is named by its own title and description; every id of the page is there once."""
    text = site.text("recipes.html")
    page = Page(text)
    ids = [attrs["id"] for _, attrs in page.tags if attrs.get("id")]
    assert len(ids) == len(set(ids))
    pictures = [attrs for tag, attrs in page.tags if tag == "svg" and "aria-labelledby" in attrs]
    assert len(pictures) == 2
    for attrs in pictures:
        assert attrs["role"] == "img"
        assert all(part in ids for part in str(attrs["aria-labelledby"]).split())
    for drawing in re.findall(r'<figure class="slime-lab__picture">(.*?)</figure>', text, re.DOTALL):
        assert "style=" not in drawing


def test_picture_has_one_square_for_each_gpu(site: Built) -> None:
    """GLM-4.7 colocated is 64 GPUs, drawn as eight nodes; the disaggregated GLM-5.3 as 32 nodes and 8."""
    text = site.text("recipes.html")
    assert len(re.findall(r'class="sl-node sl-shared"', text)) == 8
    assert len(re.findall(r'class="sl-node sl-train"', text)) == 32
    assert len(re.findall(r'class="sl-node sl-rollout"', text)) == 8


def test_keyboard_can_reach_a_file_that_scrolls(site: Built) -> None:
    """The text of every generated file takes the focus; a page without one has none of that."""
    text = site.text("recipes.html")
    assert text.count('<pre tabindex="0">') == text.count('class="slime-lab__file"') > 0
    assert 'tabindex="0"' not in site.text("plain.html")


def test_every_flag_has_a_reason(site: Built) -> None:
    """The collapsed table has a row for each argument of the engine, with its reason."""
    catalog = load_catalog()
    lines = catalog.arguments(catalog.sanitise({"model": "tiny"}).state)
    text = site.text("index.html")
    part = text[text.index('data-part="why"') :]
    body = part[part.index("<tbody>") : part.index("</tbody>")]
    assert body.count("<tr") == len(lines)
    assert all(line.flag in body for line in lines)


def test_references_resolve(site: Built) -> None:
    """``ref`` reaches a lab by its name and the page's own label; roles link and facts are numbers."""
    page = site.text("index.html")
    assert 'href="#home-lab"' in page and 'href="recipes.html#glm-4-7"' in page
    assert '<span class="slime-fact">8</span>' in page
    assert 'href="index.html#lab"' in site.text("plain.html")
    index = site.text("searchindex.js")
    assert '"slime:lab"' in index and '"slime:recipe"' in index and "The lab" in index


def test_page_data_is_safe_json(site: Built) -> None:
    """The state block parses, and no text in it can end its script element."""
    text = site.text("index.html")
    block = re.search(r'<script type="application/json" class="slime-lab__page">(.*?)</script>', text, re.DOTALL)
    assert block and json.loads(block.group(1))["state"]["model"] == "tiny"


def test_hostile_text_stays_text(build: Build, tmp_path: Path) -> None:
    """Markup in a path is written as text everywhere, and reaches the file unchanged."""
    hostile = "/data/</script><img src=x onerror=alert(1)>'$(id)"
    source = tmp_path / "hostile"
    source.mkdir()
    (source / "conf.py").write_text('extensions = ["sphinx_slime_lab"]\n')
    (source / "index.rst").write_text(
        f"T\n=\n\n.. lab::\n   :name: x\n\n   model: tiny\n   save: {json.dumps(hostile)}\n"
    )
    built = build("", source=source)
    page = Page(built.text("index.html"))
    assert not any(tag == "img" and attrs.get("src") == "x" for tag, attrs in page.tags)
    shell = (built.output / "_downloads/slime-lab/index/x/experiment.sh").read_text(encoding="utf-8")
    assert "'/data/</script><img src=x onerror=alert(1)>'\"'\"'$(id)'" in shell
