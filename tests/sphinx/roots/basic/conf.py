project = "demo"
extensions = ["myst_parser", "sphinx_slime_lab"]
html_theme = "furo"
myst_enable_extensions = ["colon_fence"]
version = "1"
copyright = "the authors"
