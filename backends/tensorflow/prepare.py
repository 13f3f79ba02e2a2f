#!/usr/bin/env python3
"""Makes the TensorFlow engine ready: fetches TensorFlow's libraries from the Python package index, and puts them into
target/tensorflow/lib, where the server looks for them.

    python3 backends/tensorflow/prepare.py            # 274 MB to fetch, 634 MB on disk
    python3 backends/tensorflow/prepare.py --text     # and the operators of TensorFlow Text, 60 MB, 166 MB on disk

Python's standard library is enough, and `strip` of binutils makes the libraries 220 MB smaller where it is installed.
What is already there is not fetched again.
"""

import argparse
import os
import platform
import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "backends"))
from prepare_wheels import download  # noqa: E402: it lies beside the engines' folders

VERSION = "2.21.0"

# By processor: requirement and SHA-256.
WHEELS = {
    "x86_64": (
        f"tensorflow-cpu=={VERSION}",
        "2b847d217b02ee7731ed91431daf3250daa0196c3c94614d23be27232e6e5b6c",
    ),
}

# TensorFlow Text, whose operators models name in model_operations; they must be of TensorFlow's version.
TEXT = {
    "x86_64": (
        f"tensorflow-text=={VERSION}",
        "324b76de059146908cd43851d1ff9ab5c9e542be9c99949597cc6a14e338414b",
    ),
}

# The C API, and what it needs. Only the C library, C++'s and those of the compiler are needed besides.
LIBRARIES = ("libtensorflow_cc.so.2", "libtensorflow_framework.so.2")
NOTICES = "THIRD_PARTY_NOTICES.txt"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--text", action="store_true", help="fetch the operators of TensorFlow Text, too")
    text = parser.parse_args().text
    target = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
    folder = (target if target.is_absolute() else ROOT / target) / "tensorflow"
    machine = platform.machine()
    if sys.platform != "linux" or machine not in WHEELS:
        sys.exit(f"no TensorFlow is known for {sys.platform} on {machine}; expected linux on {' or '.join(WHEELS)}")
    folder.parent.mkdir(parents=True, exist_ok=True)
    place("TensorFlow", folder, WHEELS[machine], machine, unpack)
    if text:
        place("TensorFlow Text", folder / "text", TEXT[machine], machine, unpack_operators)


def place(name, folder: Path, wheel, machine: str, take) -> None:
    """What `take` unpacks of that wheel, in that folder; nothing is fetched where it is there already."""
    version = folder / "version"
    if not version.is_file() or version.read_text().strip() != VERSION:
        # Beside its place, so that unpacking needs no room on another disk and moving costs nothing.
        with tempfile.TemporaryDirectory(dir=folder.parent, prefix="fetch-") as work:
            made = Path(work) / "made"
            take(download(*wheel, machine, Path(work)), made)
            (made / "version").write_text(f"{VERSION}\n")
            shutil.rmtree(folder, ignore_errors=True)
            made.rename(folder)
    print(f"{name} {VERSION} is in {folder}")


def unpack_operators(wheel: Path, target: Path) -> None:
    """The libraries of operators."""
    target.mkdir()
    with zipfile.ZipFile(wheel) as archive:
        for member in archive.namelist():
            folder, name = member.rpartition("/")[::2]
            if folder == "tensorflow_text/python/ops" and name.endswith(".so"):
                with archive.open(member) as source, open(target / name, "wb") as out:
                    shutil.copyfileobj(source, out, 1 << 20)


def unpack(wheel: Path, target: Path) -> None:
    """The libraries, stripped, into lib/, and licences and notices into licenses/."""
    (target / "lib").mkdir(parents=True)
    (target / "licenses").mkdir()
    print(f"unpacking {wheel.name}", flush=True)
    with zipfile.ZipFile(wheel) as archive:
        for member in archive.namelist():
            name = member.rsplit("/", 1)[-1]
            if member in [f"tensorflow/{it}" for it in LIBRARIES]:
                place = target / "lib" / name
            elif name == NOTICES or (".dist-info/" in member and name.upper().startswith("LICENSE")):
                place = target / "licenses" / name
            else:
                continue
            with archive.open(member) as source, open(place, "wb") as out:
                shutil.copyfileobj(source, out, 1 << 20)
    missing = [it for it in LIBRARIES if not (target / "lib" / it).is_file()]
    if missing:
        sys.exit(f"{wheel.name} does not hold {', '.join(missing)}")
    if shutil.which("strip"):
        for library in LIBRARIES:
            subprocess.run(["strip", "--strip-unneeded", str(target / "lib" / library)], check=True)
    else:
        print("strip is not installed: the libraries keep their symbols, 220 MB", flush=True)


if __name__ == "__main__":
    main()
