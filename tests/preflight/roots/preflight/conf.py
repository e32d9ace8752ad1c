project = "preflight"
extensions = ["myst_parser", "sphinx_slime_lab"]
html_theme = "furo"
