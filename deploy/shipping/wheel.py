"""The wheel: a zip with programs, library, notices and metadata in the places from which pip lays them out."""

import base64
import hashlib
import time
import zipfile
from dataclasses import dataclass

# Of the wheels of others that engines open, those that were tested. `torch` goes with the plugin, which is built for
# one version. What a machine has no wheel of is not asked for there.
TENSORFLOW = "tensorflow-cpu==2.21.0 ; platform_machine == 'x86_64'"
DESCRIPTION = """\
muster is a model server: one process that loads models from directories or object stores, batches the requests of many
clients, and runs them on CPUs and NVIDIA GPUs. It speaks the protocols of KServe and Triton, TensorFlow Serving and
SageMaker.

    muster serve model.onnx

This package holds the programs `muster`, `muster-bench` and `muster-recommend`, and ONNX Runtime. `muster[tensorflow]`
also brings what serves SavedModels.
"""


@dataclass(frozen=True)
class Terms:
    """What a wheel is made by. `plugin`: the file of the PyTorch engine's, with the version of torch that it goes with;
    `seconds`: the time of all files."""

    version: str
    platform: str
    plugin: tuple | None
    seconds: int
    level: int


def write(folder, stage, terms):
    """Makes the wheel of what lies in `stage`: programs/, lib/, licenses/, muster.cdx.json."""
    version, plugin, when = terms.version, terms.plugin, time.gmtime(terms.seconds)[:6]
    tag = f"py3-none-{terms.platform}"
    info, data = f"muster-{version}.dist-info", f"muster-{version}.data"
    notices = sorted(it for it in (stage / "licenses").rglob("*") if it.is_file())
    entries = [(f"{data}/scripts/{it.name}", it) for it in sorted((stage / "programs").iterdir())]
    entries += [(f"{data}/data/lib/muster/{it.name}", it) for it in sorted((stage / "lib").iterdir())]
    if plugin:
        entries.append((f"muster_pytorch/{plugin[0].name}", plugin[0]))
    entries += [(f"{info}/licenses/{it.relative_to(stage / 'licenses')}", it) for it in notices]
    entries.append((f"{info}/sboms/muster.cdx.json", stage / "muster.cdx.json"))
    files = [it.relative_to(stage / "licenses") for it in notices]
    texts = {
        f"{info}/METADATA": metadata(version, files, plugin),
        f"{info}/WHEEL": f"Wheel-Version: 1.0\nGenerator: muster\nRoot-Is-Purelib: false\nTag: {tag}\n",
    }
    path = folder / f"muster-{version}-{tag}.whl"
    record = []
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=terms.level) as archive:
        for name, source in entries:
            put(archive, record, name, source.read_bytes(), when, executable="/scripts/" in name)
        for name, text in texts.items():
            put(archive, record, name, text.encode(), when)
        lines = "".join(f"{it}\n" for it in record) + f"{info}/RECORD,,\n"
        put(archive, [], f"{info}/RECORD", lines.encode(), when)
    return path


def put(archive, record, name, content, when, executable=False):
    """Adds a file, and its line to the record by which pip checks and removes it."""
    entry = zipfile.ZipInfo(name, when)
    entry.external_attr = (0o100755 if executable else 0o100644) << 16
    archive.writestr(entry, content, zipfile.ZIP_DEFLATED, archive.compresslevel)
    digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
    record.append(f"{name},sha256={digest},{len(content)}")


def metadata(version, notices, plugin):
    """What the package index and pip read of it."""
    lines = [
        "Metadata-Version: 2.4",
        "Name: muster",
        f"Version: {version}",
        "Summary: A model server: ONNX, TorchScript, SavedModels, trees and Hugging Face's folders",
        "License-Expression: Apache-2.0",
        *(f"License-File: {it}" for it in notices),
        "Requires-Python: >=3.8",
        "Provides-Extra: tensorflow",
        f"Requires-Dist: {TENSORFLOW} and extra == 'tensorflow'",
    ]
    if plugin:
        lines += ["Provides-Extra: torch", f"Requires-Dist: torch=={plugin[1]} ; extra == 'torch'"]
    lines += ["Description-Content-Type: text/markdown", "", DESCRIPTION]
    return "\n".join(lines)
