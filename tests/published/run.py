#!/usr/bin/env python3
"""Published results of other servers, each repeated in shape by one command:

    cargo build --profile dist -p muster -p muster-bench -p muster-recommend
    python3 tests/published/run.py threads      # threads of small graphs: a wrong tuple costs 20 times
    python3 tests/published/run.py front        # the same graph behind Gunicorn
    python3 tests/published/run.py bert         # BERT as TorchScript and ONNX, batching, instances; --device gpu
    python3 tests/published/run.py detector     # a detector from a JPEG, optimised and not
    python3 tests/published/run.py nets         # ResNet-18, U-Net and a detector as TorchScript and ONNX
    python3 tests/published/run.py load         # load until it bends, and beyond; a second core
    python3 tests/published/run.py trees        # boosted trees: 500 requests/s below 100 ms
    python3 tests/published/run.py workers      # the same: what a thread and a worker more are worth
    python3 tests/published/run.py first        # the first request after a start
    python3 tests/published/run.py cache        # the response cache at several shares of hits
    python3 tests/published/run.py ensemble     # an ensemble beside two calls
    python3 tests/published/run.py body         # JSON beside binary tensors
    python3 tests/published/run.py automatic    # settings left alone beside the best that are found, for each model

`--quick` is a look, no measurement. What a case needs of Python is installed below --work the first time: Gunicorn and
Flask, or PyTorch and ONNX to write models with (some 6 GB). TorchScript needs `backends/pytorch/prepare.py`.
docs/background/performance.md has the tables beside the articles'.
"""

import argparse
import hashlib
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/peers"))
# They use files of that folder.
import grid  # noqa: E402
import short  # noqa: E402
from automatic import automatic  # noqa: E402
from front import front  # noqa: E402
from nets import nets  # noqa: E402
from overload import load  # noqa: E402
from serving import engines, processors  # noqa: E402
from trees import trees, workers  # noqa: E402


def main():
    """Runs one case and prints Markdown."""
    given = arguments()
    # So that servers are ended on the way out.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("stopped"))
    if not given.muster.is_file():
        sys.exit(f"{given.muster}: no such program; cargo build --profile dist -p muster -p muster-bench -p muster-recommend makes it")
    begun = time.monotonic()
    command = f"`tests/published/run.py {' '.join(sys.argv[1:])}`"
    print(f"{time.strftime('%Y-%m-%d')}, {machine()}: {command}\n", flush=True)
    print(", ".join([version(given), *engines(given)]) + "\n", flush=True)
    status = CASES[given.case](given)
    load_averages = " ".join(f"{it:.1f}" for it in os.getloadavg())
    print(f"{time.monotonic() - begun:.0f} s; load averages at the end {load_averages}")
    sys.exit(status)


def arguments():
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("case", choices=CASES)
    parser.add_argument("--quick", action="store_true", help="short blocks")
    parser.add_argument("--muster", type=Path, default=ROOT / "target/dist/muster")
    parser.add_argument("--work", type=Path, default=ROOT / "target/published",
                        help="folder of models, environments and logs")
    parser.add_argument("--python", default=sys.executable,
                        help="for bert --device gpu: one with torch, numpy and onnxscript")
    parser.add_argument("--device", choices=["cpu", "gpu"], default="cpu", help="for bert")
    parser.add_argument("--model", type=Path,
                        help="for load: a folder that classifies texts; without it one of DistilBERT's size is made")
    given = parser.parse_args()
    given.muster, given.work = given.muster.resolve(), given.work.resolve()
    given.model = given.model and given.model.resolve()
    given.work.mkdir(parents=True, exist_ok=True)
    return given


def machine():
    """Its processors."""
    names = [it.split(":")[1].strip() for it in Path("/proc/cpuinfo").read_text().splitlines() if "model name" in it]
    return f"{len(processors())} × {names[0] if names else 'processor'}"


def version(given):
    """The program's, with the hash of its file, which says which build it is."""
    said = subprocess.run([given.muster, "--version"], capture_output=True, text=True, check=True).stdout.strip()
    return f"{said} (SHA-256 `{hashlib.sha256(given.muster.read_bytes()).hexdigest()}`)"


def threads(given):
    """A grid of instances, threads and spinning, and the default beside the best, at 16 connections and at one."""
    return run(["cargo", "bench", "-p", "muster", "--bench", "threads", "--", *(["--quick"] if given.quick else [])])


def bert(given):
    """Engines, types, batching and instances: of BERT-large on a GPU, of a small one on the CPU."""
    if given.device == "cpu":
        return grid.bert(given)
    command = [given.python, ROOT / "tests/gpu/experiment.py", "--device", given.device, "--muster", given.muster]
    return run(command + (["--seconds", 1] if given.quick else []))


def detector(given):
    """One detector as exported, optimised, from the cache, in FP16 and in int8, in turns."""
    command = [sys.executable, ROOT / "tests/peers/run.py", "--set", "detector", "--muster", given.muster]
    return run(command + (["--quick"] if given.quick else []))


def run(command):
    """The exit status of a command of the repository, which prints its own table."""
    return subprocess.run([str(it) for it in command], cwd=ROOT, check=False).returncode


CASES = {
    "threads": threads,
    "front": front,
    "bert": bert,
    "detector": detector,
    "nets": nets,
    "load": load,
    "trees": trees,
    "workers": workers,
    "first": short.first,
    "cache": short.cache,
    "ensemble": short.ensemble,
    "body": short.body,
    "automatic": automatic,
}

if __name__ == "__main__":
    main()
