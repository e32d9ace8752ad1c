"""A hook whose module ends the process that imports it."""

from __future__ import annotations

import os

os._exit(7)
