"""The list of what is inside, as CycloneDX 1.6 has it."""

import json
import re
import subprocess
import uuid

from .onnxruntime import ROOT


def write(path, version, crates, below, onnxruntime, machine):
    """Writes the list of the programs' parts. The same parts give the same bytes. `onnxruntime`: its version, if the
    library is in the package."""
    purl = f"pkg:generic/muster@{version}"
    components = [component(it) for it in crates]
    first = list(below[None])
    if onnxruntime is not None:
        components.append(onnx_runtime(onnxruntime))
        first.append(components[-1]["bom-ref"])
    components.append(standard_library())
    first.append(components[-1]["bom-ref"])
    graph = [{"ref": purl, "dependsOn": first}]
    graph += [{"ref": it.purl, "dependsOn": below[it.purl]} for it in crates]
    document = {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {
            "component": {
                "type": "application",
                "bom-ref": purl,
                "name": "muster",
                "version": version,
                "description": "A model server",
                "licenses": [{"expression": "Apache-2.0"}],
                "purl": purl,
            },
            "properties": [{"name": "muster:machine", "value": machine}],
        },
        "components": components,
        "dependencies": graph,
    }
    parts = json.dumps(document, sort_keys=True)
    document["serialNumber"] = f"urn:uuid:{uuid.uuid5(uuid.NAMESPACE_URL, parts)}"
    path.write_text(json.dumps(document, indent=1) + "\n")


def component(crate):
    """A crate."""
    made = {
        "type": "library",
        "bom-ref": crate.purl,
        "name": crate.name,
        "version": crate.version,
        "description": re.sub(r"\s+", " ", crate.description),
        "licenses": [{"expression": crate.license}],
        "purl": crate.purl,
    }
    if crate.digest:
        made["hashes"] = [{"alg": "SHA-256", "content": crate.digest}]
    if crate.repository:
        made["externalReferences"] = [{"type": "vcs", "url": crate.repository}]
    return made


def onnx_runtime(version):
    """The library, which comes from its wheel."""
    purl = f"pkg:pypi/onnxruntime@{version}"
    return {
        "type": "library",
        "bom-ref": purl,
        "name": "onnxruntime",
        "version": version,
        "description": "ONNX Runtime's shared library",
        "licenses": [{"expression": "MIT"}],
        "purl": purl,
    }


def standard_library():
    """What every program in Rust holds."""
    done = subprocess.run(["rustc", "--version"], capture_output=True, text=True, check=True, cwd=ROOT)
    version = done.stdout.split()[1]
    purl = f"pkg:generic/rust-std@{version}"
    return {
        "type": "library",
        "bom-ref": purl,
        "name": "rust-std",
        "version": version,
        "description": "Rust's standard library",
        "licenses": [{"expression": "MIT OR Apache-2.0"}],
        "purl": purl,
    }
