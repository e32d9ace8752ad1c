"""Names of `torchvision.transforms.v2` that SGLang imports."""

from torchvision.transforms import InterpolationMode
from torchvision.transforms.v2 import functional

__all__ = ["InterpolationMode", "functional"]
