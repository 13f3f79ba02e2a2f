"""How long a server of many small models takes until it is ready, by where they run.

    python3 tests/published/start.py PROGRAM.. [--models N] [--tries N]

Several programs are measured in turns, so that two versions of muster meet the same machine. Each line has seconds from
the start of the process to `ready to serve` in its log, their ratio to `--isolation=off` of the same program, and the
memory of all its processes at that moment (PSS, MiB). Packages: onnx. Programs look for ONNX Runtime as ever.
"""

import argparse
import pathlib
import signal
import statistics
import subprocess
import tempfile
import time

import onnx
from onnx import TensorProto, helper

PORTS = ["--http-port=0", "--grpc-port=0", "--sagemaker-port=0", "--metrics-port=0"]


def repository(folder, models):
    """So many models `y = Abs(x)`."""
    ports = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["rows", 4]) for name in "xy"]
    graph = helper.make_graph([helper.make_node("Abs", ["x"], ["y"])], "g", ports[:1], ports[1:])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    for index in range(models):
        version = folder / f"m{index}" / "1"
        version.mkdir(parents=True)
        onnx.save(model, version / "model.onnx")


def memory(pid):
    """PSS of a process and of its children, in MiB."""
    lists = pathlib.Path(f"/proc/{pid}/task").glob("*/children")
    pids = [pid, *(int(child) for it in lists for child in it.read_text().split())]
    total = 0
    for it in pids:
        try:
            lines = pathlib.Path(f"/proc/{it}/smaps_rollup").read_text().splitlines()
        except OSError:
            # It has ended meanwhile.
            continue
        total += sum(int(line.split()[1]) for line in lines if line.startswith("Pss:"))
    return total / 1024


def start(program, models, flags):
    """Seconds until the server is ready, and its memory then."""
    began = time.monotonic()
    command = [program, "--model-repository", models, *PORTS, *flags]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as server:
        said = []
        for line in server.stdout:
            said.append(line)
            if "ready to serve" in line:
                break
        else:
            raise SystemExit(f"{program} did not get ready:\n{''.join(said[-5:])}")
        seconds, taken = time.monotonic() - began, memory(server.pid)
        server.send_signal(signal.SIGKILL)
        server.stdout.read()
    return seconds, taken


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("programs", nargs="+", metavar="PROGRAM")
    parser.add_argument("--models", type=int, default=300)
    parser.add_argument("--tries", type=int, default=3)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        repository(folder / "models", given.models)
        seen = {}
        # The first start with a cache fills it.
        for attempt in range(given.tries + 1):
            for index, program in enumerate(given.programs):
                cached = ["--isolation=auto", f"--model-cache-dir={folder}/cache{index}"]
                for form in [["--isolation=off"], ["--isolation=auto"], cached]:
                    found = start(program, folder / "models", form)
                    if attempt:
                        name = "auto, a later start with a cache" if form is cached else form[0]
                        seen.setdefault((program, name), []).append(found)
    print(f"{given.models} models, medians of {given.tries}")
    for (program, name), found in seen.items():
        seconds, taken = (statistics.median(it) for it in zip(*found))
        off = statistics.median(it for it, _ in seen[program, "--isolation=off"])
        print(f"{program} {name}: {seconds:.2f} s, {seconds / off:.1f} times off, {taken:.0f} MiB")


if __name__ == "__main__":
    main()
