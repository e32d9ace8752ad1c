"""Names of `torchvision.io` that SGLang imports; none can run."""

from __future__ import annotations

from enum import Enum

from torchvision import refuse


class ImageReadMode(Enum):
    """torchvision's decoding modes."""

    UNCHANGED = 0
    GRAY = 1
    GRAY_ALPHA = 2
    RGB = 3
    RGB_ALPHA = 4


decode_image = refuse("io.decode_image")
decode_jpeg = refuse("io.decode_jpeg")
