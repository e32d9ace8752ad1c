"""The parts that need no build: bundle, words, search, facts, site server."""

from __future__ import annotations

import shutil
import socket
import subprocess
import urllib.request
from pathlib import Path
from threading import Thread

import pytest

from slime.experiment.facts import load_facts
from sphinx_slime_lab import bundle, locale, site
from sphinx_slime_lab.facts import FactPathError, look_up, show
from sphinx_slime_lab.search_zh import ChineseBigrams


def test_committed_bundle_is_fresh() -> None:
    """The script that pages load is what the sources give now."""
    assert bundle.OUTPUT.read_text(encoding="utf-8") == bundle.build()


def test_bundle_parses() -> None:
    """Node reads the bundle as a classic script."""
    node = shutil.which("node")
    if node is None:
        pytest.fail("no node on PATH: apt-get install nodejs")
    subprocess.run([node, "--check", str(bundle.OUTPUT)], check=True)


def test_bundle_refuses_what_it_does_not_know(tmp_path: Path) -> None:
    """An unknown form of export and a circle of imports are errors, not silence."""
    (tmp_path / "ui").mkdir()
    main = tmp_path / "ui" / "main.js"
    main.write_text("export default 1;\n")
    with pytest.raises(bundle.BundleError, match="cannot bundle 'export default 1;'"):
        bundle.build(main)
    main.write_text('import { b } from "./other.js";\nexport const a = b;\n')
    (tmp_path / "ui" / "other.js").write_text('import { a } from "./main.js";\nexport const b = a;\n')
    with pytest.raises(bundle.BundleError, match=r"main\.js -> other\.js -> main\.js"):
        bundle.build(main)


def test_bundle_keeps_meaning(tmp_path: Path) -> None:
    """Renamed imports, export lists and casts in comments survive; the result runs."""
    (tmp_path / "ui").mkdir()
    main = tmp_path / "ui" / "main.js"
    main.write_text(
        'import { twice as double, NAME } from "./other.js";\n'
        "/** A comment of its own. */\n"
        "const value = /** @type {number} */ (double(21));\n"
        "console.log(NAME, value);\n"
    )
    (tmp_path / "ui" / "other.js").write_text(
        'function twice(x) {\n  return 2 * x; // doubled\n}\nexport const NAME = "n";\nexport { twice };\n'
    )
    script = tmp_path / "out.js"
    script.write_text(bundle.build(main))
    done = subprocess.run(["node", str(script)], capture_output=True, text=True, check=True)
    assert done.stdout == "n 42\n"
    assert "A comment of its own" not in script.read_text()


def test_bundle_stays_small() -> None:
    """The script of a page stays under 30 KB compressed."""
    import gzip

    assert len(gzip.compress(bundle.OUTPUT.read_bytes(), mtime=0)) < 30_000


def test_words_have_the_same_slots() -> None:
    """Both languages of each text fill the same slots."""
    import re

    for key, entry in locale._table().items():
        assert set(re.findall(r"\{(\w+)\}", entry["zh"])) == set(re.findall(r"\{(\w+)\}", entry["en"])), key


def test_chinese_search_terms() -> None:
    """Runs of Chinese become overlapping pairs, words stay words."""
    search = ChineseBigrams({})
    assert search.split("张量并行 (TP) 与Megatron-Core") == ["张量", "量并", "并行", "TP", "与", "Megatron", "Core"]
    assert [search.stem(word) for word in ("并行", "Experiments")] == ["并行", "experi"]
    assert not search.word_filter("与") and search.word_filter("张量")


def test_facts_by_path() -> None:
    """Launch file, model file and names of expressions answer; ids with dots are told apart."""
    facts = load_facts()
    assert look_up(facts, "glm-4.7.parallel.tp") == 8
    assert look_up(facts, "glm-4.7-flash.parallel.tp") == 2
    assert look_up(facts, "glm-4.7.moe.experts") == 160
    assert look_up(facts, "tiny.gpus_per_node") == 1
    assert show(look_up(facts, "glm-4.7.vocab")) == "151\u202f552"
    assert show(look_up(facts, "tiny.hf_repo")) == "—"
    with pytest.raises(FactPathError, match=r"did you mean parallel\.tp\?"):
        look_up(facts, "glm-4.7.parallel.tq")
    with pytest.raises(FactPathError, match="did you mean tiny"):
        look_up(facts, "tinny.layers")


def test_server_moves_to_the_next_free_port(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A busy port is named and skipped; the site answers on the loopback address alone."""
    (tmp_path / "index.html").write_text("<p>here</p>")
    with socket.socket() as busy:
        busy.bind(("127.0.0.1", 0))
        busy.listen()
        port = busy.getsockname()[1]
        with pytest.raises(site.SiteError, match=f"ports {port} to {port} are taken"):
            site.open_server(tmp_path, port, tries=1)
        with site.open_server(tmp_path, port) as server:
            assert server.server_address[0] == "127.0.0.1" and server.server_address[1] > port
            thread = Thread(target=server.handle_request)
            thread.start()
            with urllib.request.urlopen(f"http://127.0.0.1:{server.server_address[1]}/") as answer:
                assert answer.read() == b"<p>here</p>"
            thread.join()
    assert f"port {port}: Address already in use" in capsys.readouterr().err


def test_server_needs_a_site(tmp_path: Path) -> None:
    """Serving a folder without a site says what to do first."""
    with pytest.raises(site.SiteError, match="build the site first"):
        site.open_server(tmp_path, 8000)


def test_command_line_reports_and_exits(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A folder without conf.py is an error message and exit 1."""
    assert site.main(["build", "--root", str(tmp_path)]) == 1
    assert "has no conf.py" in capsys.readouterr().err


def test_site_builds_both_languages_and_fails_on_a_warning(tmp_path: Path) -> None:
    """One command gives zh, en and the entry page; one wrong key in one tree fails it."""
    root = tmp_path / "project"
    repository = Path(__file__).resolve().parents[2]
    root.mkdir()
    conf = (repository / "conf.py").read_text(encoding="utf-8")
    (root / "conf.py").write_text(conf.replace('html_favicon = "sphinx_slime_lab/static/slime.svg"\n', ""))
    for language, title in (("zh", "首页"), ("en", "Home")):
        folder = root / "docs" / language
        folder.mkdir(parents=True)
        (folder / "index.md").write_text(
            f"(lab)=\n# {title}\n\n```{{lab}}\nmodel: tiny\n```\n\n```{{mermaid}}\nflowchart LR\n  A --> B\n```\n\n"
            "Let $A_i = r_i - \\bar r$.\n\n```{toctree}\nonly\n```\n" if language == "zh" else
            f"(lab)=\n# {title}\n\n```{{lab}}\nmodel: tiny\n```\n"
        )  # fmt: skip
    (root / "docs/zh/only.md").write_text("# 只有中文\n\n并行。\n")
    site.build(root, root / "_site", jobs="1")
    home = (root / "_site/zh/index.html").read_text(encoding="utf-8")
    assert 'href="../en/index.html" hreflang="en"' in home
    assert 'type="image/svg+xml"' in home and "<math" in home and "cdn" not in home
    only = (root / "_site/zh/only.html").read_text(encoding="utf-8")
    assert 'href="../en/index.html"' in only and "exists in Chinese only" in only
    assert "zh/index.html" in (root / "_site/index.html").read_text(encoding="utf-8")
    page = root / "docs/en/index.md"
    page.write_text(page.read_text().replace("model: tiny", "modle: tiny"))
    with pytest.raises(site.SiteError, match="the en tree"):
        site.build(root, root / "_site", jobs="1")
