from pathlib import Path

import sphinx_slime_lab

project = "browser-test"
extensions = ["myst_parser", "sphinx_slime_lab"]
html_theme = "furo"
html_favicon = str(Path(sphinx_slime_lab.__file__).parent / "static" / "slime.svg")
