"""Composes the extension. Every part registers itself; nothing happens here but registration."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sphinx_slime_lab import __version__, assets, config, mathml, nodes, theme_words, twins, workbench
from sphinx_slime_lab.directives import LabDirective, RecipeDirective
from sphinx_slime_lab.domain import SlimeDomain, keep_undocumented
from sphinx_slime_lab.filling import fill_experiments
from sphinx_slime_lab.languages import add_language_link, add_version_link
from sphinx_slime_lab.reference import DIRECTIVES
from sphinx_slime_lab.roles import CalcRole, FactRole, StateRole
from sphinx_slime_lab.search_zh import ChineseBigrams

if TYPE_CHECKING:
    from sphinx.application import Sphinx
    from sphinx.util.typing import ExtensionMetadata


def setup(app: Sphinx) -> ExtensionMetadata:
    """Register options, nodes, domain, directives, roles, assets and the Chinese search."""
    config.register(app)
    nodes.register(app)
    app.add_domain(SlimeDomain)
    for name, directive in {"lab": LabDirective, "recipe": RecipeDirective}.items():
        app.add_directive(name, directive)
        app.add_directive_to_domain("slime", name, directive)
    for name, table in DIRECTIVES.items():
        app.add_directive_to_domain("slime", name, table)
    for name, role in {"fact": FactRole(), "calc": CalcRole(), "state": StateRole()}.items():
        app.add_role_to_domain("slime", name, role)
    app.add_search_language(ChineseBigrams)
    mathml.register(app)
    app.connect("builder-inited", workbench.open_workbench)
    app.connect("builder-inited", assets.add_static_folder)
    app.connect("builder-inited", theme_words.add_theme_words)
    app.connect("env-get-outdated", assets.outdated)
    app.connect("env-updated", assets.write_data)
    app.connect("env-updated", twins.write)
    app.connect("doctree-resolved", fill_experiments)
    app.connect("missing-reference", keep_undocumented)
    app.connect("html-page-context", assets.add_page_scripts)
    app.connect("html-page-context", add_language_link)
    app.connect("html-page-context", add_version_link)
    app.config.templates_path = [*app.config.templates_path, str(assets.PACKAGE / "templates")]
    # Raise env_version whenever the shape of the domain's data or of the nodes changes.
    return {"version": __version__, "env_version": 3, "parallel_read_safe": True, "parallel_write_safe": True}
