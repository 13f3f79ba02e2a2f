"""ONNX Runtime's library with its notices, from the wheel that the build's script knows."""

import re
import shutil
import sys
import tempfile
import zipfile
from pathlib import Path

from prepare_wheels import download

ROOT = Path(__file__).resolve().parents[2]
NOTICES = ("LICENSE", "ThirdPartyNotices.txt")


def pinned(machine):
    """Version and digest of the wheel, as backends/onnxruntime/build.rs has them: one place says both."""
    script = (ROOT / "backends/onnxruntime/build.rs").read_text()
    version = re.search(r'^const VERSION: &str = "([^"]+)";', script, re.MULTILINE)
    wheels = dict(re.findall(r'arch: "(\w+)",\s+platform: "[^"]+",\s+sha256: "([0-9a-f]{64})"', script))
    if not version or not wheels:
        sys.exit("backends/onnxruntime/build.rs: expected VERSION and WHEELS with arch, platform and sha256")
    if machine not in wheels:
        sys.exit(f"no ONNX Runtime is known for {machine}; expected {' or '.join(wheels)}")
    return version[1], wheels[machine]


def ready(machine, target, native):
    """The folder with library and notices: the one that a build has made, else one that is fetched."""
    version, digest = pinned(machine)
    library = f"libonnxruntime.so.{version}"
    built = target / f"onnxruntime-{version}"
    if native and (built / library).is_file():
        return built, version
    folder = target / f"package/onnxruntime-{version}-{machine}"
    if not folder.is_dir():
        folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder.parent, prefix="fetch-") as work:
            made = Path(work) / "made"
            made.mkdir()
            wheel = download(f"onnxruntime=={version}", digest, machine, Path(work))
            with zipfile.ZipFile(wheel) as archive:
                for member in (f"onnxruntime/capi/{library}", *(f"onnxruntime/{it}" for it in NOTICES)):
                    with archive.open(member) as source, open(made / member.rsplit("/", 1)[-1], "wb") as out:
                        shutil.copyfileobj(source, out, 1 << 20)
            made.rename(folder)
    return folder, version
