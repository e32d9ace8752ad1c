"""A hook whose module ends the process that imports it, with the status of success."""

from __future__ import annotations

import os

os._exit(0)
