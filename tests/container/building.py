"""The image itself: built from a copy of the sources, built again after a change, and weighed."""

import base64
import io
import json
import shutil
import struct
import subprocess
import tarfile
import time

from engine import Container, Failed, compressed, docker
from facts import HARDENED, example, expect, fact, served
from models import FIXTURES, ROOT
from wire import ask, wait_healthy

IMAGE = "muster:proof"
# What .dockerignore lets through.
SOURCES = ["Cargo.toml", "Cargo.lock", "Dockerfile", ".dockerignore", "LICENSE", ".cargo", "backends", "server"]
SOURCES += ["tests/architecture", "tests/support", "deploy/package.py", "deploy/shipping"]
# What the host of a GPU brings, and no image holds.
OF_THE_DRIVER = ("libcuda.so", "libnvidia-ml.so")
# A crate that only the dependencies need: it must not be compiled a second time.
DEPENDENCY = "Compiling tokio v"


def build(proof):
    """Builds the image from a copy of the sources; then changes one file in the copy, and builds again."""
    copy = proof.folder / "source"
    copy.mkdir()
    for name in SOURCES:
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, copy / name)
        else:
            (copy / name).parent.mkdir(exist_ok=True)
            shutil.copy(ROOT / name, copy / name)
    first, _ = timed_build(proof, copy)
    with open(copy / "server/src/main.rs", "a") as file:
        file.write(f"// Changed at {time.time()}.\n")
    second, log = timed_build(proof, copy)
    expect(DEPENDENCY not in log, "the dependencies were compiled again")
    return f"{first:.0f} s (less what was in the engine's cache), after a change of server/src/main.rs {second:.0f} s"


def timed_build(proof, folder):
    """Seconds, and what the builder wrote."""
    began = time.monotonic()
    command = ["docker", "build", *proof.build_options, "-t", proof.image, str(folder)]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if done.returncode != 0:
        raise Failed("docker build: " + " / ".join(done.stdout.strip().splitlines()[-5:]))
    return time.monotonic() - began, done.stdout


@fact("the size of the image, as it lies on disk and compressed as a registry keeps it")
def size(proof):
    plain, packed = compressed("save", proof.image)
    with Container(proof.image, ["--version"]) as container:
        lib, lib_packed = compressed("cp", f"{container.name}:/opt/muster/lib", "-")
        program, program_packed = compressed("cp", f"{container.name}:/opt/muster/muster", "-")
    sizes = {
        "image": (plain, packed),
        "without ONNX Runtime": (plain - lib, packed - lib_packed),
        "ONNX Runtime": (lib, lib_packed),
        "program": (program, program_packed),
    }
    return "; ".join(f"{name} {a / 1e6:.1f} MB, compressed {b / 1e6:.1f} MB" for name, (a, b) in sizes.items())


@fact("everybody may read what the image adds")
def readable(proof):
    with Container(proof.image, ["--version"]) as container:
        raw = docker("cp", f"{container.name}:/opt/muster", "-", text=False).stdout
    with tarfile.open(fileobj=io.BytesIO(raw)) as archive:
        members = archive.getmembers()
    for it in members:
        wanted = 0o555 if it.isdir() or it.name.endswith("/muster") else 0o444
        expect(it.issym() or it.mode & wanted == wanted, f"{it.name} has mode {it.mode:o}")
    return f"{len(members)} files"


@fact("the notices of what is inside, and a list of it, are in the image")
def notices(proof):
    with Container(proof.image, ["--version"]) as container:
        place = f"{container.name}:/opt/muster/licenses"
        with tarfile.open(fileobj=io.BytesIO(docker("cp", place, "-", text=False).stdout)) as archive:
            names = {it.name.removeprefix("licenses/") for it in archive.getmembers()}
            listed = json.load(archive.extractfile("licenses/muster.cdx.json"))["components"]
            text = archive.extractfile("licenses/THIRD-PARTY-NOTICES.txt").read().decode()
    expect("onnxruntime/ThirdPartyNotices.txt" in names, "ONNX Runtime's notices are not there")
    crates = [it for it in listed if it["purl"].startswith("pkg:cargo/")]
    lacking = [it["purl"] for it in crates if f"\n{it['name']} {it['version']} (" not in text]
    expect(len(crates) > 100 and not lacking, f"{len(crates)} crates are listed; no notice of {', '.join(lacking)}")
    return f"{len(crates)} crates"


@fact("every library in the image finds what it needs, but for a GPU's driver")
def libraries(proof):
    command = "find /opt/muster -name '*.so*' -type f -exec ldd {} + 2>&1"
    done = docker("run", "--rm", "--entrypoint", "sh", proof.image, "-c", command, check=False)
    if done.returncode == 127:
        return "not looked at: the image has no shell"
    missing = {it.split()[0] for it in done.stdout.splitlines() if "not found" in it}
    missing = {it for it in missing if not it.startswith(OF_THE_DRIVER)}
    expect(not missing, f"not found: {', '.join(sorted(missing))}")
    return f"{done.stdout.count('=>')} names found"


@fact("an image with libtorch gives the right numbers from TorchScript, without privileges too")
def torchscript(proof):
    with Container(proof.image, ["--version"]) as container:
        if docker("cp", f"{container.name}:/opt/muster/pytorch", "-", check=False, text=False).returncode != 0:
            return "this image has none"
    rows = example()
    with served(proof, "torchscript", HARDENED) as container:
        _, healthy = wait_healthy(container)
        code, _, reply = ask(container.address(), 8080, "/invocations", rows.csv(), {"Content-Type": "text/csv"})
        expect(code == 200, f"{code} {reply[:200]}")
        rows.check_csv(reply)
        return f"docker run → 200: {healthy - container.asked:.1f} s"


@fact("an image with TensorFlow gives the right numbers from a SavedModel, without privileges too")
def savedmodel(proof):
    with Container(proof.image, ["--version"]) as container:
        if docker("cp", f"{container.name}:/opt/muster/tensorflow/version", "-", check=False, text=False).returncode != 0:
            return "this image has none"
    with served(proof, "savedmodel", HARDENED) as container:
        _, healthy = wait_healthy(container)
        body = b'{"instances": [1.0, 2.0, 5.0]}'
        code, _, reply = ask(container.address(), 8080, "/invocations", body, {"Content-Type": "application/json"})
        expect(code == 200, f"{code} {reply[:200]}")
        predictions = json.loads(reply)["predictions"]
        expect(predictions == [2.5, 3.0, 4.5], f"{predictions}")
        return f"docker run → 200: {healthy - container.asked:.1f} s"


@fact("an image with TensorFlow takes the command of TensorFlow Serving, and answers at its address")
def command(proof):
    with Container(proof.image, ["--version"]) as container:
        if docker("cp", f"{container.name}:/opt/muster/tensorflow/version", "-", check=False, text=False).returncode != 0:
            return "this image has none"
    flags = ["--model_name=half", "--model_base_path=/opt/ml/model/half_plus_two", "--rest_api_port=8501"]
    with served(proof, "savedmodel", HARDENED, ["tensorflow_model_server", *flags]) as container:
        _, healthy = wait_healthy(container, 8501)
        code, _, reply = ask(container.address(), 8501, "/v1/models/half:predict", b'{"instances": [1.0, 2.0, 5.0]}')
        expect(code == 200, f"{code} {reply[:200]}")
        expect(json.loads(reply) == {"predictions": [2.5, 3.0, 4.5]}, reply)
        return f"docker run → 200: {healthy - container.asked:.1f} s"


@fact("a folder with nothing but an `xgboost-model`: CSV gets XGBoost's numbers, to the last bit")
def forest(proof):
    expected = json.loads((FIXTURES / "forests/xgboost-3.4.1/expected.json").read_text())
    rows, right = numbers(expected["rows"]), numbers(expected["logistic"]["predictions"])
    width, count = expected["rows"]["shape"][1], len(right)
    rows = [rows[at * width : (at + 1) * width] for at in range(count)]
    body = "".join(",".join("" if it != it else repr(it) for it in row) + "\n" for row in rows)
    with served(proof, "forest", HARDENED) as container:
        _, healthy = wait_healthy(container)
        code, _, reply = ask(container.address(), 8080, "/invocations", body.encode(), {"Content-Type": "text/csv"})
        expect(code == 200, f"{code} {reply[:200]}")
        given = [struct.unpack("<f", struct.pack("<f", float(it)))[0] for it in reply.split()]
        expect(given == list(right), f"given {given[:3]}, expected {right[:3]}")
        return f"{count} rows; docker run → 200: {(healthy - container.asked) * 1000:.0f} ms"


def numbers(tensor):
    """Those of an FP32 tensor of the fixtures."""
    raw = base64.b64decode(tensor["raw"])
    return struct.unpack(f"<{len(raw) // 4}f", raw)
