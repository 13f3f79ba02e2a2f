"""What `package.py` makes packages of: programs, ONNX Runtime, notices, a list of what is inside; and the packages."""

import sys
from pathlib import Path

# `prepare_wheels`, which fetches wheels, lies beside the engines' folders.
sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "backends"))
