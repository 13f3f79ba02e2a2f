"""The file of a model: which flavour it is written for, and how it is imported."""

import ast
import importlib
import importlib.util
import os
import sys
import types

from muster_python.model_archive import is_manifest

# Functions of SageMaker's scripts, one of which says that the file is one.
_SCRIPT_FUNCTIONS = {
    "model_fn",
    "transform_fn",
    "input_fn",
    "predict_fn",
    "output_fn",
}

# Functions of scripts for SageMaker's TensorFlow Serving container.
_HANDLERS = {"handler", "input_handler", "output_handler"}

# Modules of this runtime.
_FLAVORS = ("triton", "simple", "script", "handlers", "estimator", "pyfunc", "torchserve")


def flavor(load):
    """The module of this runtime that runs the file."""
    path = load["file"]
    if not os.path.isfile(path):
        raise FileNotFoundError(f"Python model file not found in '{path}'")
    name = load.get("flavor", "auto")
    if name == "auto":
        name = _flavor_of(path)
    if name not in _FLAVORS:
        raise ValueError(f"flavor is '{name}', expected auto, {', '.join(_FLAVORS)}")
    return importlib.import_module(f"muster_python.{name}")


def _flavor_of(path):
    """By the file's name, or by the names that it defines: it is not run for this."""
    if os.path.basename(path) == "MLmodel":
        return "pyfunc"
    if is_manifest(path):
        return "torchserve"
    if os.path.splitext(path)[1] != ".py":
        return "estimator"
    with open(path, "rb") as file:
        names = _defined(ast.parse(file.read(), path).body)
    if "TritonPythonModel" in names:
        return "triton"
    # Before the next: scripts often define a network called `Model`.
    if names & _SCRIPT_FUNCTIONS:
        return "script"
    if names & _HANDLERS:
        return "handlers"
    if "Model" in names or "predict" in names:
        return "simple"
    if "*" in names:
        return "triton"
    raise ImportError(
        f"'{path}' defines no model: expected a class TritonPythonModel, a class Model with a method predict, "
        "a function predict, or functions of a SageMaker script (model_fn and others)"
    )


def _defined(statements):
    """Names that these statements define in their module."""
    names = set()
    for it in statements:
        if isinstance(it, (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
            names.add(it.name)
        elif isinstance(it, (ast.Import, ast.ImportFrom)):
            names.update(alias.asname or alias.name for alias in it.names)
        elif isinstance(it, ast.Assign):
            names.update(target.id for target in it.targets if isinstance(target, ast.Name))
        for block in ("body", "orelse", "finalbody"):
            if isinstance(it, (ast.If, ast.Try, ast.With)):
                names |= _defined(getattr(it, block, []))
    return names


def import_model(load, first=()):
    """The module of a model's file. Modules beside it can be imported, with `import helper` and `from . import helper`.

    `first`: directories that are looked into before all others.
    """
    path, directory = load["file"], load["version_directory"]
    sys.path[:0] = first
    sys.path.extend(it for it in (directory, load["directory"]) if it not in sys.path)
    package = str(load["version"])
    if package not in sys.modules:
        module = types.ModuleType(package)
        module.__path__ = [os.path.dirname(path)]
        sys.modules[package] = module
    name = f"{package}.{os.path.splitext(os.path.basename(path))[0]}"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None:
        raise ImportError(f"'{path}' is not a file of Python: its name has to end in .py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except ModuleNotFoundError as error:
        places = [os.path.join(it, "requirements.txt") for it in (os.path.dirname(path), load["directory"])]
        requirements = next(filter(os.path.isfile, places), None)
        if requirements is not None:
            raise ModuleNotFoundError(
                f"{error}. '{requirements}' is not installed by the server: "
                f"{sys.executable} -m pip install -r '{requirements}'",
                name=error.name,
            ) from error
        raise
    return module
