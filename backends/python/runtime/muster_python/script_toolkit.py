"""Modules that scripts import from the images they were made for, where those are not installed."""

import importlib.util
import sys
import types

from muster_python import script_codecs as codecs

# What stands in for a module, by the name of the module.
_STAND_INS = {
    "sagemaker_inference.content_types": ("JSON", "CSV", "OCTET_STREAM", "ANY", "NPY", "NPZ", "UTF8_TYPES"),
    "sagemaker_inference.decoder": ("decode",),
    "sagemaker_inference.encoder": ("encode",),
    "sagemaker_inference.errors": (
        "BaseInferenceToolkitError",
        "GenericInferenceToolkitError",
        "UnsupportedFormatError",
    ),
    "sagemaker_inference.utils": ("parse_accept",),
    "mms.service": ("PredictionException",),
}


def offer():
    """Makes them importable. A package that is installed stays what it is."""
    packages = {it.partition(".")[0] for it in _STAND_INS}
    missing = {it for it in packages if it not in sys.modules and importlib.util.find_spec(it) is None}
    for it in missing:
        module = types.ModuleType(it)
        module.__path__ = []
        sys.modules[it] = module
    for name, offered in _STAND_INS.items():
        package, _, inner = name.partition(".")
        if package not in missing:
            continue
        module = types.ModuleType(name)
        for it in offered:
            setattr(module, it, getattr(codecs, it))
        sys.modules[name] = module
        setattr(sys.modules[package], inner, module)
