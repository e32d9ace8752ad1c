"""`python -m slime`: the same as `slime`."""

from __future__ import annotations

import sys

from slime.cli import main

sys.exit(main())
