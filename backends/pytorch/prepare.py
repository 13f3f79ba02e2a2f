#!/usr/bin/env python3
"""Makes the libtorch engine ready: fetches libtorch from the Python package index, builds the plugin, and puts both
into one folder, target/pytorch, where the server looks for them.

    python3 backends/pytorch/prepare.py                 # all of it: 540 MB to fetch
    python3 backends/pytorch/prepare.py --fetch-only    # libtorch alone, into target/libtorch-<version>
    python3 backends/pytorch/prepare.py --gpu           # with libtorch's part for GPUs; NVIDIA's libraries are not in it

Python's standard library is enough; pip fetches, so that its mirrors and certificates apply, and every file is
refused whose SHA-256 is not the one below. What is already there is neither fetched nor built again.
"""

import argparse
import os
import platform
import shutil
import sys
import tempfile
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "backends"))
from prepare_wheels import download, run, run_telling  # noqa: E402: it lies beside the engines' folders

VERSION = "2.13.0"
# The build looks for it there: .cargo/config.toml says so.
LIBTORCH = ROOT / "target" / f"libtorch-{VERSION}"
PLUGIN = "libmuster_pytorch.so"

# By processor: requirement and SHA-256. The two of NVIDIA are small and need no driver: the profiler inside
# libtorch_cpu.so of this wheel names them.
WHEELS = {
    "x86_64": [
        (f"torch=={VERSION}", "60fcdcb2f3876e21146cb4524ef06397d727ca9ad5f020818547e25075fe3cb7"),
        ("nvidia-cuda-runtime==13.0.96", "7f82250d7782aa23b6cfe765ecc7db554bd3c2870c43f3d1821f1d18aebf0548"),
        ("nvidia-cuda-cupti==13.0.85", "4eb01c08e859bf924d222250d2e8f8b8ff6d3db4721288cf35d14252a4d933c8"),
    ],
    "aarch64": [
        (f"torch=={VERSION}", "092790c696a760c729fd5722835f50b9d81fd7c8f141571f3f3cf4081a8f664c"),
        ("nvidia-cuda-runtime==13.0.96", "ef9bcbe90493a2b9d810e43d249adb3d02e98dd30200d86607d8d02687c43f55"),
        ("nvidia-cuda-cupti==13.0.85", "796bd679890ee55fb14a94629b698b6db54bcfd833d391d5e94017dd9d7d3151"),
    ],
}

# Libraries of the wheel for GPUs. They have a folder of their own: beside the others, the build would link them.
FOR_GPUS = ("cuda", "nvrtc", "nvshmem")
# Libraries for Python. libtorch.so holds nothing but the names of the others, libtorch_cuda.so among them: an empty
# one takes its place.
NOT_NEEDED = ("python", "libshm", "global_deps")
FROM_NVIDIA = ("libcudart.so.13", "libcupti.so.13")


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    arguments.add_argument("--fetch-only", action="store_true", help="do not build the plugin")
    arguments.add_argument("--gpu", action="store_true", help="with libtorch's libraries for GPUs, 520 MB more")
    given = arguments.parse_args()
    fetch(given.gpu)
    if not given.fetch_only:
        build(given.gpu)


def fetch(gpu: bool) -> None:
    """Makes LIBTORCH: include/, lib/, licenses/, build-version, and cuda/ with `gpu`. It is moved to its place when it is whole."""
    if LIBTORCH.is_dir() and (not gpu or (LIBTORCH / "cuda").is_dir()):
        print(f"libtorch {VERSION} is in {LIBTORCH}")
        return
    machine = platform.machine()
    if sys.platform != "linux" or machine not in WHEELS:
        sys.exit(f"no libtorch is known for {sys.platform} on {machine}; expected linux on {' or '.join(WHEELS)}")
    LIBTORCH.parent.mkdir(parents=True, exist_ok=True)
    shutil.rmtree(LIBTORCH, ignore_errors=True)
    # Beside its place, so that unpacking needs no room on another disk and moving costs nothing.
    with tempfile.TemporaryDirectory(dir=LIBTORCH.parent, prefix="fetch-") as folder:
        made = Path(folder) / "libtorch"
        (made / "lib").mkdir(parents=True)
        for requirement, digest in WHEELS[machine]:
            wheel = download(requirement, digest, machine, Path(folder))
            print(f"unpacking {wheel.name}", flush=True)
            unpack(wheel, made, gpu)
            wheel.unlink()
        stub(made / "lib" / "libtorch.so")
        (made / "build-version").write_text(f"{VERSION}\n")
        made.rename(LIBTORCH)
    print(f"libtorch {VERSION} is in {LIBTORCH}")


def unpack(wheel: Path, target: Path, gpu: bool) -> None:
    """Headers, the needed libraries and the licences of a wheel, into include/, lib/, cuda/ and licenses/."""
    with zipfile.ZipFile(wheel) as archive:
        for member in archive.namelist():
            place = place_of(member, gpu)
            if place is None:
                continue
            path = target / place
            path.parent.mkdir(parents=True, exist_ok=True)
            with archive.open(member) as source, open(path, "wb") as out:
                shutil.copyfileobj(source, out, 1 << 20)


def place_of(member: str, gpu: bool):
    """Where a wheel's file goes; None if it is not needed."""
    name = member.rsplit("/", 1)[-1]
    package, _, notice = member.partition(".dist-info/licenses/")
    if notice and name:
        return f"licenses/{package}/{notice}"
    if member.startswith("torch/include/") and name:
        return member.removeprefix("torch/")
    library = member.startswith("torch/lib/") and member.count("/") == 2 and ".so" in name
    if library and any(it in name for it in FOR_GPUS):
        return f"cuda/{name}" if gpu else None
    if library and name != "libtorch.so" and not any(it in name for it in NOT_NEEDED):
        return f"lib/{name}"
    return f"lib/{name}" if name in FROM_NVIDIA else None


def stub(path: Path) -> None:
    """An empty shared library, for those who ask for it by name."""
    command = [os.environ.get("CC", "cc"), "-shared", "-nostdlib", "-x", "c", os.devnull]
    run(command + ["-o", str(path), f"-Wl,-soname,{path.name}"])


def build(gpu: bool) -> None:
    """Builds the plugin and makes the folder from which it runs."""
    print("building the plugin: on two processors two to four minutes, and 2 GB of memory", flush=True)
    environment = os.environ | {"LIBTORCH": str(LIBTORCH)}
    # torch-sys, which `tch` stands on, is one large file of C++: cargo is silent while that is compiled.
    command = ["cargo", "build", "--release", "-p", "backend-pytorch-plugin"]
    run_telling(command, "still building, mostly the C++ of torch-sys", cwd=ROOT, env=environment)
    target = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
    if not target.is_absolute():
        target = ROOT / target
    folder = target / "pytorch"
    print(f"linking the plugin and its libraries into {folder}", flush=True)
    shutil.rmtree(folder, ignore_errors=True)
    libraries = folder / "libtorch" / "lib"
    libraries.mkdir(parents=True)
    link(target / "release" / PLUGIN, folder / PLUGIN)
    for source in [LIBTORCH / "lib"] + ([LIBTORCH / "cuda"] if gpu else []):
        for library in source.iterdir():
            link(library, libraries / library.name)
    shutil.copytree(LIBTORCH / "licenses", folder / "libtorch" / "licenses")
    print(f"the plugin and its libraries are in {folder}")


def link(source: Path, target: Path) -> None:
    """A second name of that file where the disk allows it, else a copy."""
    try:
        os.link(source, target)
    except OSError:
        shutil.copy2(source, target)


if __name__ == "__main__":
    main()
