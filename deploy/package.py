#!/usr/bin/env python3
"""Makes what users install: a wheel and a tarball with the programs, ONNX Runtime, notices and a list of what is inside.

The list is CycloneDX, and SHA256SUMS lies beside them. docs/contributing/releasing.md tells when.

  deploy/package.py                               builds by zig for glibc 2.28 and later; into target/package/dist
  deploy/package.py --pytorch-plugin              and puts the plugin of `backends/pytorch/prepare.py` into the wheel
  deploy/package.py --programs target/release     of programs that are there: for this machine and newer ones
  deploy/package.py --notices FOLDER              notices and list alone, for an image; the folder is made

Needs Python 3.11, Rust and binutils; the first form also pip and a package index.
"""

import argparse
import hashlib
import os
import platform
import shutil
import subprocess
import sys
import tempfile
import tomllib
import venv
from pathlib import Path

from shipping import crates, notices, onnxruntime, programs, sbom, tarball, wheel
from prepare_wheels import run  # noqa: I001: shipping says where it is

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent


def main():
    """Makes one or the other, as the command line says."""
    options = arguments()
    version = tomllib.loads((ROOT / "Cargo.toml").read_text())["workspace"]["package"]["version"]
    if options.notices:
        return list_and_notices(options.notices, options, version, None, None)
    if f"## [{version}]" not in (ROOT / "CHANGELOG.md").read_text():
        sys.exit(f"CHANGELOG.md has no section '## [{version}]', which is the version of Cargo.toml")
    tools = None if options.programs else build_tools(options.target)
    built = options.programs or programs.build(options.machine, tools, options.target)
    options.out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=options.out, prefix="stage-") as stage:
        made = pack(Path(stage), options, version, built, tools)
    sums = options.out / tarball.SUMS
    sums.write_text(tarball.sums({it.name: it for it in made}))
    for it in [*made, sums]:
        print(f"{it}: {it.stat().st_size / 1e6:.1f} MB")


def arguments():
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    target = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
    parser.add_argument("--machine", choices=["x86_64", "aarch64"], default=platform.machine(),
                        help="the processor of those who install it; another than this takes `rustup target add`")
    parser.add_argument("--programs", type=Path, metavar="FOLDER", help="take the programs that are there")
    parser.add_argument("--pytorch-plugin", type=Path, metavar="FILE", nargs="?",
                        const=target / "pytorch/libmuster_pytorch.so",
                        help="put the PyTorch engine's plugin into the wheel")
    parser.add_argument("--notices", type=Path, metavar="FOLDER", help="write notices and list, and make no package")
    parser.add_argument("--compress", type=int, choices=range(1, 10), default=9, metavar="1..9",
                        help="9 makes the smallest packages, 1 the soonest ready")
    parser.add_argument("--out", type=Path, metavar="FOLDER", default=target / "package/dist")
    options = parser.parse_args()
    options.target = target if target.is_absolute() else ROOT / target
    if options.pytorch_plugin and not options.pytorch_plugin.is_file():
        sys.exit(f"--pytorch-plugin {options.pytorch_plugin}: there is no such file; "
                 f"`python3 backends/pytorch/prepare.py` makes it")
    return options


def pack(stage, options, version, built, tools):
    """Lays out what the packages hold in `stage`, and makes them."""
    programs.take(built, stage / "programs", strip=options.programs is not None)
    library, ort_version = onnxruntime.ready(options.machine, options.target, options.machine == platform.machine())
    (stage / "lib").mkdir()
    shutil.copy(library / f"libonnxruntime.so.{ort_version}", stage / "lib")
    list_and_notices(stage / "licenses", options, version, (library, ort_version), tools)
    (stage / "licenses/muster.cdx.json").rename(stage / "muster.cdx.json")
    needed = programs.glibc_of([*(stage / "programs").iterdir(), *(stage / "lib").iterdir()])
    if tools and needed > programs.OLDEST_GLIBC:
        sys.exit(f"what was built needs glibc {needed[0]}.{needed[1]}, expected {programs.OLDEST_GLIBC} or older")
    print(f"programs and library need glibc {needed[0]}.{needed[1]}")
    seconds = commit_time()
    needed = max(needed, programs.OLDEST_GLIBC)
    tag = f"manylinux_{needed[0]}_{needed[1]}_{options.machine}"
    plugin = options.pytorch_plugin and (options.pytorch_plugin, torch_version())
    if plugin:
        print("the plugin for TorchScript needs glibc {}.{}".format(*programs.glibc_of([plugin[0]])))
    return [
        wheel.write(options.out, stage, wheel.Terms(version, tag, plugin, seconds, options.compress)),
        tarball.write(options.out, stage, tarball.Terms(version, options.machine, seconds, options.compress)),
        shutil.copy(stage / "muster.cdx.json", options.out / f"muster-{version}-linux-{options.machine}.cdx.json"),
    ]


def list_and_notices(folder, options, version, library, tools):
    """Writes notices, and the list `muster.cdx.json`, into a folder. `library`: ONNX Runtime's folder and version."""
    plugin = ("backend-pytorch-plugin",) if options.pytorch_plugin else ()
    found, below = crates.inside(options.machine, programs.NAMES + plugin)
    notices.write(folder, found, library and library[0], tools)
    # An image has the library, too, and puts its notices there itself.
    ort_version = library[1] if library else onnxruntime.pinned(options.machine)[0]
    sbom.write(folder / "muster.cdx.json", version, found, below, ort_version, options.machine)
    print(f"notices of {len(found)} crates are in {folder}")


def build_tools(target):
    """The `bin` of an environment with what requirements.txt names; made if it is not there."""
    wanted = HERE / "shipping/requirements.txt"
    folder = target / "package/tools"
    stamp = hashlib.sha256(wanted.read_bytes() + sys.version.encode()).hexdigest()
    installed = folder / "installed"
    if not (installed.is_file() and installed.read_text() == stamp):
        venv.create(folder, clear=True, with_pip=True)
        pip = [folder / "bin/python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        run([*pip, "--no-deps", "--require-hashes", "--only-binary", ":all:", "-r", wanted])
        installed.write_text(stamp)
    return folder / "bin"


def torch_version():
    """The version of libtorch that the plugin is built for."""
    script = (ROOT / "backends/pytorch/prepare.py").read_text()
    return next(it.split('"')[1] for it in script.splitlines() if it.startswith("VERSION = "))


def commit_time():
    """The time that all files of a package have, so that the same sources give the same bytes."""
    if "SOURCE_DATE_EPOCH" in os.environ:
        return int(os.environ["SOURCE_DATE_EPOCH"])
    done = subprocess.run(["git", "log", "-1", "--format=%ct"], cwd=ROOT, capture_output=True, text=True)
    # Zip knows no time before 1980; sources without a history have this one.
    return int(done.stdout) if done.stdout.strip() else 315_532_800


if __name__ == "__main__":
    main()
