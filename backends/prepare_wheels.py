"""Wheels of the Python package index, for the scripts that make engines' libraries ready. pip fetches, so that its
mirrors and certificates apply; a file is refused whose SHA-256 is not the one that the script knows.
"""

import hashlib
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path


def download(requirement: str, digest: str, machine: str, folder: Path) -> Path:
    """The wheel of that requirement, if its SHA-256 is `digest`."""
    print(f"fetching {requirement}", flush=True)
    place = Path(tempfile.mkdtemp(dir=folder))
    command = [sys.executable, "-m", "pip", "download", "--disable-pip-version-check", "--no-deps"]
    command += ["--only-binary", ":all:", "--python-version", "3.11", "--implementation", "cp"]
    command += ["--abi", "cp311", "--abi", "none"]
    for tag in ("manylinux_2_28", "manylinux_2_27", "manylinux_2_25", "manylinux_2_17", "manylinux2014"):
        command += ["--platform", f"{tag}_{machine}"]
    fetch_with_progress(command + ["--dest", str(place), requirement])
    wheels = list(place.glob("*.whl"))
    if len(wheels) != 1:
        sys.exit(f"pip left {len(wheels)} files for {requirement}, expected 1")
    found = hashlib.sha256()
    with open(wheels[0], "rb") as file:
        while block := file.read(1 << 20):
            found.update(block)
    if found.hexdigest() != digest:
        sys.exit(f"{wheels[0].name} has SHA-256 {found.hexdigest()}, expected {digest}: refused")
    return wheels[0]


def fetch_with_progress(command) -> None:
    """Runs pip, and shows how much of the file is there; pip before version 24.1 does not tell."""
    version = subprocess.run(command[:3] + ["--version"], capture_output=True, text=True).stdout.split()
    numbers = re.findall(r"\d+", version[1]) if len(version) > 1 else []
    if [int(it) for it in numbers[:2]] < [24, 1]:
        run(command)
        return
    shown, others = -1, []
    with subprocess.Popen(command + ["--progress-bar", "raw"], stdout=subprocess.PIPE, text=True) as pip:
        for line in pip.stdout:
            told = re.match(r"Progress (\d+) of (\d+)", line)
            if not told or not int(told[2]):
                others.append(line)
                continue
            done, whole = int(told[1]), int(told[2])
            if (tenth := 10 * done // whole) > shown:
                shown = tenth
                print(f"  {10 * tenth:3} % of {whole / 1e6:.0f} MB", flush=True)
    if pip.returncode != 0:
        sys.exit("".join(others) + f"{' '.join(command[:4])} … failed with exit status {pip.returncode}")


def run(command, **options) -> None:
    try:
        subprocess.run(command, check=True, **options)
    except FileNotFoundError:
        sys.exit(f"{command[0]} is not installed")
    except subprocess.CalledProcessError as error:
        sys.exit(f"{' '.join(map(str, command[:4]))} … failed with exit status {error.returncode}")


def run_telling(command, told: str, **options) -> None:
    """Runs it like `run`, and says every 20 seconds that it still does, and for how long."""
    begun = time.monotonic()
    try:
        process = subprocess.Popen(command, **options)
    except FileNotFoundError:
        sys.exit(f"{command[0]} is not installed")
    with process:
        while True:
            try:
                status = process.wait(timeout=20)
                break
            except subprocess.TimeoutExpired:
                print(f"  {told}: {time.monotonic() - begun:.0f} s", flush=True)
            except BaseException:
                process.kill()
                raise
    if status != 0:
        sys.exit(f"{' '.join(command[:4])} … failed with exit status {status}")
