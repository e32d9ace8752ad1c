"""``python -m slime.experiment``: the command ``slime lab`` by itself."""

from __future__ import annotations

import sys

from slime.experiment.command import main

if __name__ == "__main__":
    sys.exit(main())
