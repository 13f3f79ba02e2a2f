"""Objects of KServe against the models of its Python client, which are read and not run: they import half a cloud.

Each model has its fields as a literal `openapi_types` and `attribute_map`, and raises for what must not be left out. What
it takes over from Kubernetes is checked by the schemas of kubernetes-validate.
"""

import ast
import re

import jsonschema
from kubernetes_validate.utils import schema_contents
from referencing import Registry, Resource

from .packages import KUBERNETES, package


def model(name, value, where, report):
    """An object, by the model of this name. `where` says in problems which object it is."""
    text = path(name).read_text()
    (of,) = [it for it in ast.parse(text).body if isinstance(it, ast.ClassDef)]
    literals = {
        it.targets[0].id: ast.literal_eval(it.value)
        for it in of.body
        if isinstance(it, ast.Assign) and it.targets[0].id in ("openapi_types", "attribute_map")
    }
    types = {literals["attribute_map"][field]: kind for field, kind in literals["openapi_types"].items()}
    if not isinstance(value, dict):
        report.problem(where, f"expected an object, given {value!r}")
        return
    for field in re.findall(r"Invalid value for `(\w+)`, must not be `None`", text):
        if value.get(literals["attribute_map"][field]) is None:
            report.problem(where, f"'{literals['attribute_map'][field]}' is missing")
    for field, it in value.items():
        if field in types:
            typed(types[field], it, f"{where}: {field}", report)
        else:
            report.problem(where, f"unknown field '{field}'; there are {', '.join(sorted(types))}")


def typed(kind, value, where, report):
    """One field: a list or map of a type, a model of KServe, an object of Kubernetes, or a plain value."""
    if inner := re.fullmatch(r"list\[(.*)\]", kind):
        if not isinstance(value, list):
            report.problem(where, f"expected a list, given {value!r}")
            return
        for index, it in enumerate(value):
            typed(inner[1], it, f"{where}[{index}]", report)
    elif inner := re.fullmatch(r"dict\(str, (.*)\)", kind):
        for key, it in value.items():
            typed(inner[1], it, f"{where}.{key}", report)
    elif plain := {"str": str, "int": int, "bool": bool, "float": (int, float)}.get(kind):
        if not isinstance(value, plain) or (isinstance(value, bool) and kind != "bool"):
            report.problem(where, f"expected {kind}, given {value!r}")
    elif path(kind).is_file():
        model(kind, value, where, report)
    else:
        part(kind, value, where, report)


def part(kind, value, where, report):
    """A part of an object of Kubernetes: `V1Container` by the schema of containers."""
    folder = f"kubernetes-json-schema/v{KUBERNETES[-1]}.0-local-strict"
    name, version = re.sub(r"^V1", "", kind).lower(), KUBERNETES[-1]
    try:
        schema = schema_contents(f"{folder}/{name}{'-meta' if name == 'objectmeta' else ''}-v1.json", version)
    except FileNotFoundError:
        report.problem(where, f"no schema is known for {kind}")
        return
    definitions = Resource.from_contents(schema_contents(f"{folder}/_definitions.json", version))
    registry = definitions @ (Resource.from_contents(schema) @ Registry())
    for it in jsonschema.Draft202012Validator(schema, registry=registry).iter_errors(value):
        report.problem(where, f"{it.json_path}: {it.message}")


def path(name):
    """The file of a model: `V1beta1ModelSpec` is in v1beta1_model_spec.py."""
    return package("kserve") / f"models/{re.sub(r'(?<!^)(?=[A-Z])', '_', name).lower()}.py"
