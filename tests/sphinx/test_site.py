"""The files beside the language trees: redirects, versions, sitemap, 404; and how the site is served."""

from __future__ import annotations

import urllib.error
import urllib.request
from pathlib import Path
from threading import Thread
from xml.etree import ElementTree

import pytest
import yaml

from sphinx_slime_lab import site, site_files, site_redirects
from sphinx_slime_lab.languages import LATEST
from sphinx_slime_lab.testing import Build

REPOSITORY = Path(__file__).resolve().parents[2]


@pytest.fixture(name="output")
def output_fixture(tmp_path: Path) -> Path:
    """A site of two versions, as if Sphinx had built it; a page and an anchor are newer than version 1.0."""
    for folder in ("", "1.0"):
        for language in ("en", "zh"):
            tree = tmp_path / folder / language
            (tree / "advanced").mkdir(parents=True)
            (tree / "_static").mkdir()
            (tree / "search.html").write_text("search")
            (tree / "index.html").write_text("home")
            (tree / "advanced/weights.html").write_text('<section id="delta"></section>')
    (tmp_path / "en/new.html").write_text("new")
    return tmp_path


def test_a_moved_page_leads_to_its_new_address(output: Path) -> None:
    """Refresh, canonical address and link are relative to the old place; the script's address too."""
    table = {"advanced/old-weights": "advanced/weights#delta", "start": "advanced/weights"}
    written = site_redirects.write(table, output / "en", "en", "")
    assert written == ["advanced/old-weights.html", "start.html"]
    deep = (output / "en/advanced/old-weights.html").read_text()
    assert '<meta http-equiv="refresh" content="0; url=weights.html#delta">' in deep
    assert '<link rel="canonical" href="weights.html">' in deep
    assert '<script src="../redirect.js" data-to="weights.html#delta">' in deep
    assert '<a href="weights.html#delta">' in deep
    flat = (output / "en/start.html").read_text()
    assert 'url=advanced/weights.html">' in flat and 'src="redirect.js"' in flat
    site_redirects.write(table, output / "zh", "zh", "https://docs.example/zh/")
    chinese = (output / "zh/advanced/old-weights.html").read_text()
    assert '<link rel="canonical" href="https://docs.example/zh/advanced/weights.html">' in chinese
    assert '<html lang="zh-CN">' in chinese and "此页已移到" in chinese
    assert site_redirects.write(table, output / "en", "en", "") == written  # a second build of the same folder


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"a": "advanced/weight"}, r"a: there is no page 'advanced/weight'; did you mean advanced/weights\?"),
        ({"a": "advanced/weights#delte"}, r"a: advanced/weights has no 'delte'; did you mean delta\?"),
        ({"index": "advanced/weights"}, "index: this page exists, so it cannot lead elsewhere"),
    ],
)
def test_a_wrong_redirect_is_refused(output: Path, row: dict[str, str], message: str) -> None:
    with pytest.raises(site_redirects.RedirectError, match=message):
        site_redirects.write(row, output / "en", "en", "")


def test_the_table_of_redirects_is_a_mapping_of_texts(tmp_path: Path) -> None:
    assert site_redirects.read(tmp_path / "absent.yaml") == {}
    (tmp_path / "table.yaml").write_text("a: [b]\n")
    with pytest.raises(site_redirects.RedirectError, match="must map each old page"):
        site_redirects.read(tmp_path / "table.yaml")


def test_every_redirect_of_this_site_has_its_page() -> None:
    """Old addresses are free and new ones exist in both trees; anchors stand there as labels."""
    table = yaml.safe_load((REPOSITORY / "docs" / site_redirects.TABLE).read_text(encoding="utf-8"))
    for language in ("en", "zh"):
        docs = REPOSITORY / "docs" / language
        for old, new in table.items():
            page, _, anchor = new.partition("#")
            assert not (docs / f"{old}.md").exists(), old
            text = (docs / f"{page}.md").read_text(encoding="utf-8")
            assert not anchor or f"({anchor})=" in text, new


def test_versions_are_listed_with_their_pages(output: Path) -> None:
    """The latest first; what is no page of readers is left out; one version alone gets no list."""
    latest, old = listed = site_files.versions(output, [])
    assert (latest.name, latest.path, old.name, old.path) == (LATEST, "", "1.0", "1.0/")
    assert latest.pages["en"] == ["advanced/weights.html", "index.html", "new.html"]
    assert old.pages["zh"] == ["advanced/weights.html", "index.html"]
    assert "advanced/weights.html" not in site_files.versions(output, ["advanced/weights.html"])[0].pages["en"]
    site_files.write_versions(output, listed)
    text = (output / "versions.html").read_text()
    assert '<a href="1.0/zh/index.html" hreflang="zh"' in text
    assert 'data-tree="en/" data-pages="advanced/weights.html index.html new.html"' in text


def test_versions_go_downwards_by_their_numbers(tmp_path: Path) -> None:
    for name in ("1.9", "1.10", "1.2", "1.10-rc1", "preview"):
        page = tmp_path / name / "en/index.html"
        page.parent.mkdir(parents=True)
        page.touch()
    assert [one.name for one in site_files.versions(tmp_path, [])] == ["1.10-rc1", "1.10", "1.9", "1.2", "preview"]


def test_a_page_of_a_version_leads_to_the_list(build: Build) -> None:
    """From the root and from below, from the latest and from another version; without the option there is no link."""
    for version, up in ((LATEST, "../"), ("1.0", "../../")):
        built = build("basic", slime_lab_version=version, templates_path=[], html_sidebars=SIDEBARS)
        assert f'href="{up}versions.html?page=plain.html">Version: {version}</a>' in built.text("plain.html")
    deep = build("basic", buildername="dirhtml", slime_lab_version="1.0", html_sidebars=SIDEBARS)
    assert 'href="../../../versions.html?page=plain/"' in deep.text("plain/index.html")
    assert "versions.html" not in build("basic", html_sidebars=SIDEBARS).text("plain.html")


SIDEBARS = {"**": ["slime_lab/version.html"]}


def test_the_sitemap_names_both_languages(output: Path) -> None:
    """Every page of the latest version by its public address, with the languages that it exists in."""
    latest = site_files.versions(output, [])[0]
    site_files.write_sitemap(output, latest, "https://docs.example/slime/")
    root = ElementTree.parse(output / "sitemap.xml").getroot()
    space = {"s": "http://www.sitemaps.org/schemas/sitemap/0.9", "x": "http://www.w3.org/1999/xhtml"}
    found = {
        str(url.findtext("s:loc", namespaces=space)): [str(link.get("href")) for link in url.findall("x:link", space)]
        for url in root.findall("s:url", space)
    }
    start = "https://docs.example/slime"
    assert list(found) == [
        f"{start}/{one}"
        for one in (
            "zh/advanced/weights.html",
            "zh/index.html",
            "en/advanced/weights.html",
            "en/index.html",
            "en/new.html",
        )
    ]
    assert found[f"{start}/en/index.html"] == [f"{start}/zh/index.html", f"{start}/en/index.html"]
    assert found[f"{start}/en/new.html"] == [f"{start}/en/new.html"]


def test_an_unknown_address_gets_the_sites_own_page(output: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Status 404, links from the root of the site, both languages; under a public address from there."""
    site_files.write_entry(output)
    site_files.write_not_found(output, "")
    with site.open_server(output, 18500) as server:
        thread = Thread(target=server.handle_request)
        thread.start()
        with pytest.raises(urllib.error.HTTPError) as caught:
            urllib.request.urlopen(f"http://127.0.0.1:{server.server_address[1]}/en/no/such.html")
        thread.join()
    body = caught.value.read().decode()
    assert caught.value.code == 404 and 'href="/en/index.html"' in body and 'href="/zh/search.html"' in body
    assert "/en/no/such.html" in capsys.readouterr().err
    site_files.write_not_found(output, "https://docs.example/slime/")
    assert 'href="/slime/en/index.html"' in (output / "404.html").read_text()


@pytest.mark.parametrize("name", ["zh", "..", "1/2", "-x", "latest"])
def test_a_version_is_the_name_of_a_folder(tmp_path: Path, name: str) -> None:
    with pytest.raises(site.SiteError, match="cannot be the folder of a version"):
        site.build(tmp_path, tmp_path / "_site", version=name)


def test_the_public_address_ends_with_a_slash(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLIME_DOC_BASEURL", "https://docs.example/slime")
    with pytest.raises(site.SiteError, match="end with a slash"):
        site.build(tmp_path, tmp_path / "_site")
