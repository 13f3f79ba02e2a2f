"""Data of installed packages: where they lie, and for which versions they are asked."""

import importlib.util
from pathlib import Path

# The oldest and the newest Kubernetes for which the objects are meant.
KUBERNETES = ("1.31", "1.37")


def package(name):
    """The folder of an installed package, which is not imported."""
    return Path(importlib.util.find_spec(name).submodule_search_locations[0])
