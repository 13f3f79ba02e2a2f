#!/usr/bin/env python3
"""Installs the wheel and the tarball as users do, and asks what they serve.

  deploy/try_package.py                     makes both with package.py first
  deploy/try_package.py --dist FOLDER       those that are in a folder
  deploy/try_package.py --dist FOLDER --extras    also installs what `muster[tensorflow]` and `muster[torch]` ask for

Prints how long each way took from the first command to the first right answer, downloads aside, and how large it is.
Ends with 1 where an answer is wrong, a file is missing, or `pip install` to the answer took more than --within seconds.
"""

import argparse
import array
import base64
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
import urllib.request
import venv
import zipfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
MODEL = ROOT / "tests/fixtures/models/two_outputs/1/model.onnx"
PORTS = ["--http-port=0", "--grpc-port=0", "--sagemaker-port=0", "--metrics-port=0", "--http-address=127.0.0.1"]


def main():
    """Tries one way after the other."""
    options = arguments()
    if not options.dist:
        options.dist = ROOT / "target/package/dist"
        subprocess.run([sys.executable, HERE / "package.py", "--out", options.dist], check=True)
    (wheel,), (tarball,) = (sorted(options.dist.glob(it)) for it in ("muster-*.whl", "muster-*.tar.gz"))
    with tempfile.TemporaryDirectory() as work:
        work = Path(work)
        took = try_pip(wheel, work / "venv", options)
        try_uvx(wheel, work)
        try_tarball(tarball, options.dist, work / "unpacked")
    if took > options.within:
        sys.exit(f"pip install to the first right answer took {took:.1f} s, expected at most {options.within:.0f}")


def arguments():
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--dist", type=Path, metavar="FOLDER", help="where the packages are")
    parser.add_argument("--extras", action="store_true", help="try the wheel's extras; they are fetched")
    parser.add_argument("--within", type=float, default=10, metavar="SECONDS")
    return parser.parse_args()


def try_pip(wheel, folder, options):
    """Installs into an empty environment; returns the seconds from `pip install` to the first right answer."""
    venv.create(folder, with_pip=True)
    before = files_of(folder)
    pip = [folder / "bin/pip", "--disable-pip-version-check"]
    began = time.monotonic()
    subprocess.run([*pip, "install", "--quiet", "--no-index", wheel], check=True)
    installed = time.monotonic() - began
    server = Served(folder / "bin/muster", ["serve", MODEL])
    with server as address:
        check_answer(address)
        took = time.monotonic() - began
        server.check_library(folder)
    bytes_on_disk = sum(it.stat().st_size for it in files_of(folder) - before)
    print(f"pip install: {installed:.1f} s; to the first right answer: {took:.1f} s; wheel "
          f"{wheel.stat().st_size / 1e6:.0f} MB, on disk {bytes_on_disk / 1e6:.0f} MB")
    check_tools(folder / "bin/muster")
    check_notices(wheel)
    if options.extras:
        try_extras(wheel, folder)
    subprocess.run([*pip, "uninstall", "--quiet", "--yes", "muster"], check=True)
    left = {it for it in files_of(folder) - before if "muster" in it.name}
    expect(not left, f"pip uninstall leaves {', '.join(map(str, left))}")
    return took


def try_extras(wheel, folder):
    """Has pip fetch TensorFlow's wheel, and torch's where the plugin is inside, and serves a model of each."""
    pip = [folder / "bin/pip", "--disable-pip-version-check", "install", "--quiet"]
    subprocess.run([*pip, f"{wheel}[tensorflow]"], check=True)
    model = ROOT / "tests/fixtures/savedmodels/half_plus_two"
    # In a process of its own, which can look for nothing by itself.
    isolated = "--isolation=all"
    with Served(folder / "bin/muster", ["serve", model, isolated]) as address:
        reply = ask(f"{address}/v1/models/half_plus_two:predict", {"instances": [1.0, 2.0, 5.0]})
        expect(reply == {"predictions": [2.5, 3.0, 4.5]}, f"TensorFlow answers {reply}")
    print("muster[tensorflow] answers")
    if "muster_pytorch/libmuster_pytorch.so" not in zipfile.ZipFile(wheel).namelist():
        print("muster[torch] was not tried: the wheel has no plugin for it (package.py --pytorch-plugin)")
        return
    subprocess.run([*pip, f"{wheel}[torch]"], check=True)
    model = ROOT / "tests/fixtures/torchscript/mlp/1/model.pt"
    case = json.loads((ROOT / "tests/fixtures/expected/mlp.json").read_text())["cases"][0]
    with Served(folder / "bin/muster", ["serve", model, isolated]) as address:
        reply = ask(f"{address}/v2/models/model/infer", {"inputs": [tensor("input", case["inputs"]["input"])]})
        found, right = reply["outputs"][0]["data"], tensor("output", case["outputs"]["output"])["data"]
        near = len(found) == len(right) and all(abs(a - b) <= 1e-4 * abs(b) for a, b in zip(found, right))
        expect(near, f"libtorch answers {found}, expected {right}")
    print("muster[torch] answers")


def tensor(name, stored):
    """A tensor of 32-bit floats as the fixtures store it, as a request has it."""
    values = array.array("f", base64.b64decode(stored["raw"])).tolist()
    return {"name": name, "shape": stored["shape"], "datatype": stored["datatype"], "data": values}


def try_uvx(wheel, work):
    """The same without an environment of one's own, where uv is installed."""
    uvx = shutil.which("uvx")
    if uvx is None:
        print("uvx was not tried: uv is not installed")
        return
    variables = os.environ | {"UV_CACHE_DIR": str(work / "uv"), "UV_OFFLINE": "1"}
    began = time.monotonic()
    done = subprocess.run([uvx, "--from", wheel, "muster", "--version"], env=variables, capture_output=True, text=True)
    expect(done.returncode == 0 and done.stdout.startswith("muster "), f"uvx: {done.stdout}{done.stderr}")
    print(f"uvx --from the wheel: {time.monotonic() - began:.1f} s to {done.stdout.splitlines()[0]}")


def try_tarball(tarball, dist, folder):
    """Checks the digests, and serves from where it was unpacked."""
    sums = subprocess.run(["sha256sum", "--check", "--quiet", "SHA256SUMS"], cwd=dist, capture_output=True, text=True)
    expect(sums.returncode == 0, f"SHA256SUMS: {sums.stdout}{sums.stderr}")
    folder.mkdir()
    began = time.monotonic()
    with tarfile.open(tarball) as archive:
        archive.extractall(folder, filter="data")
    (inside,) = folder.iterdir()
    server = Served(inside / "muster", ["serve", MODEL])
    with server as address:
        check_answer(address)
        took = time.monotonic() - began
        server.check_library(inside)
    sums = subprocess.run(["sha256sum", "--check", "--quiet", "SHA256SUMS"], cwd=inside, capture_output=True, text=True)
    expect(sums.returncode == 0, f"SHA256SUMS inside: {sums.stdout}{sums.stderr}")
    listed = {it.split("  ", 1)[1] for it in (inside / "SHA256SUMS").read_text().splitlines()}
    there = {str(it.relative_to(inside)) for it in files_of(inside)}
    expect(there - listed == {"SHA256SUMS"}, f"not in SHA256SUMS: {there - listed}")
    check_tools(inside / "muster")
    bytes_on_disk = sum(it.stat().st_size for it in files_of(inside))
    print(f"tarball: {took:.1f} s to the first right answer; {tarball.stat().st_size / 1e6:.0f} MB, "
          f"on disk {bytes_on_disk / 1e6:.0f} MB")


def check_tools(muster):
    """`muster bench` and `muster recommend` are there."""
    for tool in ("bench", "recommend"):
        done = subprocess.run([muster, tool, "--help"], env=environment(), capture_output=True, text=True)
        expect(done.returncode == 0, f"muster {tool} --help: {done.stderr}")


def check_notices(wheel):
    """The notices that licences ask for, and a list with each crate that has one, are inside."""
    with zipfile.ZipFile(wheel) as archive:
        names = {it.split(".dist-info/", 1)[-1] for it in archive.namelist()}
        wanted = {"licenses/LICENSE", "licenses/THIRD-PARTY-NOTICES.txt", "licenses/rust/COPYRIGHT-library.html",
                  "licenses/onnxruntime/LICENSE", "licenses/onnxruntime/ThirdPartyNotices.txt", "sboms/muster.cdx.json"}
        expect(wanted <= names, f"the wheel lacks {wanted - names}")
        text = {it.split(".dist-info/", 1)[-1]: it for it in archive.namelist()}
        notices = archive.read(text["licenses/THIRD-PARTY-NOTICES.txt"]).decode()
        listed = json.loads(archive.read(text["sboms/muster.cdx.json"]))["components"]
    crates = [it for it in listed if it["purl"].startswith("pkg:cargo/")]
    expect(len(crates) > 100, f"{len(crates)} crates are listed")
    lacking = [it["purl"] for it in crates if f"\n{it['name']} {it['version']} (" not in notices]
    expect(not lacking, f"no notice of {', '.join(lacking)}")


class Served:
    """A server from its start to its end; the value is its address."""

    def __init__(self, program, arguments):
        self.command = [program, *arguments, *PORTS]

    def __enter__(self):
        self.server = subprocess.Popen(self.command, env=environment(), stdout=subprocess.PIPE,
                                       stderr=subprocess.STDOUT, text=True)
        said = []
        for line in self.server.stdout:
            said.append(line)
            if found := re.search(r"try it: .*?(http://[\w.:]+)", line):
                return found[1]
        sys.exit(f"{self.command[0]} ended: {''.join(said)}")

    def check_library(self, folder):
        """ONNX Runtime is the package's, and no other that this machine may have."""
        mapped = Path(f"/proc/{self.server.pid}/maps").read_text()
        found = set(re.findall(r"/\S*libonnxruntime\S*", mapped))
        expect(found and all(it.startswith(f"{folder.resolve()}/") for it in found), f"ONNX Runtime is {found}")

    def __exit__(self, *_):
        self.server.terminate()
        self.server.communicate()
        expect(self.server.returncode == 0, f"the server ended with {self.server.returncode}")


def environment():
    """This process's variables, without those that muster reads."""
    return {name: it for name, it in os.environ.items() if name != "ORT_DYLIB_PATH" and not name.startswith("MUSTER_")}


def check_answer(address):
    """The model's answer is right: it has sum, difference and product of two rows."""
    rows = {"a": [1.0, 2.0, 3.0, 4.0], "b": [10.0, 20.0, 30.0, 40.0]}
    tensors = [{"name": it, "shape": [1, 4], "datatype": "FP32", "data": rows[it]} for it in rows]
    reply = ask(f"{address}/v2/models/model/infer", {"inputs": tensors})
    found = {it["name"]: it["data"] for it in reply["outputs"]}
    right = {"sum": [11, 22, 33, 44], "difference": [-9, -18, -27, -36], "product": [10, 40, 90, 160]}
    expect(found == right, f"the model answers {found}, expected {right}")


def ask(url, body):
    """The reply to a request, whose status is 200."""
    request = urllib.request.Request(url, json.dumps(body).encode(), {"Content-Type": "application/json"})
    with urllib.request.urlopen(request) as reply:
        return json.load(reply)


def files_of(folder):
    """All files below a folder."""
    return {it for it in folder.rglob("*") if it.is_file() and not it.is_symlink()}


def expect(holds, otherwise):
    """Ends with these words where it does not hold."""
    if not holds:
        sys.exit(otherwise)


if __name__ == "__main__":
    main()
