project = "broken"
extensions = ["myst_parser", "sphinx_slime_lab"]
myst_enable_extensions = ["colon_fence"]
exclude_patterns = ["included.txt"]
