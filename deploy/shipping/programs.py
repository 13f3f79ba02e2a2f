"""The programs: built for an old glibc, or taken as they are, and what they need of the system."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

from prepare_wheels import run

ROOT = Path(__file__).resolve().parents[2]
NAMES = ("muster", "muster-bench", "muster-recommend")
# What wheels of `manylinux_2_28` may ask for: RHEL 8, Ubuntu 20.04, Debian 11, Amazon Linux 2023 and later have it.
OLDEST_GLIBC = (2, 28)


def build(machine, tools, target):
    """Builds the programs by zig, which has the names of glibc as they were in any of its versions, and returns their
    folder. `tools`: the `bin` of an environment with cargo-zigbuild and ziglang."""
    triple = f"{machine}-unknown-linux-gnu"
    command = ["cargo", "zigbuild", "--profile", "dist", "--locked"]
    command += ["--target", f"{triple}.{'.'.join(map(str, OLDEST_GLIBC))}"]
    for name in NAMES:
        command += ["-p", name]
    cargo_home = Path(os.environ.get("CARGO_HOME", Path.home() / ".cargo"))
    environment = os.environ | {
        "PATH": f"{tools}{os.pathsep}{os.environ['PATH']}",
        "CARGO_TARGET_DIR": str(target),
        "CARGO_PROFILE_DIST_STRIP": "symbols",
        # The library lies in the package: a place of this machine has no business in the program.
        "MUSTER_SKIP_ORT_DOWNLOAD": "1",
        "RUSTFLAGS": f"--remap-path-prefix={ROOT}=/muster --remap-path-prefix={cargo_home}=/cargo",
    }
    run(command, cwd=ROOT, env=environment)
    return target / triple / "dist"


def take(source, folder, strip):
    """Copies the programs into a folder; with `strip` without the symbols that only debuggers read."""
    folder.mkdir(parents=True)
    for name in NAMES:
        if not (source / name).is_file():
            sys.exit(f"--programs {source}: expected {', '.join(NAMES)} in it, which `cargo build --release` makes; "
                     f"there is no {name}")
        shutil.copy(source / name, folder / name)
        if strip:
            run(["strip", "--strip-all", str(folder / name)])
        (folder / name).chmod(0o755)


def glibc_of(files):
    """The newest version of glibc that any of these files needs, as a pair of numbers."""
    newest = (0, 0)
    for file in files:
        command = ["readelf", "--version-info", "--wide", str(file)]
        listed = subprocess.run(command, capture_output=True, text=True, check=True, env=os.environ | {"LC_ALL": "C"})
        # `Name: GLIBC_2.34  Flags: none  Version: 2`; WEAK is what the file does without.
        for *version, flags in re.findall(r"Name: GLIBC_(\d+)\.(\d+)\S* +Flags: (\S+)", listed.stdout):
            if flags != "WEAK":
                newest = max(newest, (int(version[0]), int(version[1])))
    return newest
