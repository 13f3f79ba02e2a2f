#!/usr/bin/env python3
"""How a server behaves at each number of requests in flight.

docs/background/scaling.md derives targets from these figures.

Runs `muster bench` with more and more connections, and takes from /metrics what happened meanwhile.

  deploy/sweep.py --muster target/release/muster --model fraud http://localhost:8000
"""

import argparse
import json
import re
import subprocess
import sys
import urllib.request
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
COLUMNS = [
    "connections",
    "in flight",
    "requests/s",
    "p50 ms",
    "p99 ms",
    "in the queue, µs per request",
    "rows per batch",
    "processors used",
    "refused",
]


def main():
    """Prints a table as Markdown, one row for each number of connections."""
    options = arguments()
    print("| " + " | ".join(COLUMNS) + " |")
    print("|" + "--:|" * len(COLUMNS))
    for connections in options.connections:
        # Instances are made, and batches find their size.
        bench(options, connections, seconds=0.5)
        before = counters(options)
        result = bench(options, connections, options.seconds)
        print("| " + " | ".join(row(connections, before, counters(options), result)) + " |", flush=True)


def arguments():
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("url", help="of the server, which has no other clients meanwhile")
    parser.add_argument("--model", required=True)
    parser.add_argument("--muster", type=Path, default=ROOT / "target/release/muster")
    parser.add_argument("--connections", nargs="+", type=int, default=[1, 2, 4, 8, 16, 32, 64])
    parser.add_argument("--seconds", type=float, default=5, help="of each row")
    parser.add_argument("--pid", help="of the server, if it runs here: tells how many processors it uses")
    parser.add_argument("--rows", help="shape of an input, such as input:8,30; by default one row")
    return parser.parse_args()


def bench(options, connections, seconds):
    """What `muster bench` says, as JSON."""
    command = [options.muster, "bench", options.url, "--model", options.model, "--connections", str(connections)]
    command += ["--duration", str(seconds), "--warm-up", "0", "--json"]
    command += ["--shape", options.rows] if options.rows else []
    command += ["--pid", options.pid] if options.pid else []
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"muster bench failed: {done.stderr.strip()}")
    return json.loads(done.stdout)


def counters(options):
    """The model's counters, by name; of several versions the sum."""
    try:
        with urllib.request.urlopen(f"{options.url.rstrip('/')}/metrics") as reply:
            text = reply.read().decode()
    except OSError as error:
        sys.exit(f"{options.url}/metrics: {error}")
    sums = {}
    for name, labels, value in re.findall(r"^([a-z_]+)\{(.*)\} (\S+)$", text, re.MULTILINE):
        if f'model="{options.model}"' in labels:
            sums[name] = sums.get(name, 0) + float(value)
    return sums


def row(connections, before, after, result):
    """The cells of one row."""

    def more(name):
        return after.get(name, 0) - before.get(name, 0)

    answered, statuses = more("nv_inference_request_success"), result["statuses"]
    return [
        str(connections),
        # As an autoscaler sees it: time spent in the server by requests, per time.
        f"{more('nv_inference_request_duration_us') / 1e6 / result['elapsed_s']:.1f}",
        f"{result['ok'] / result['elapsed_s']:.0f}",
        f"{result['latency']['p50_us'] / 1000:.2f}",
        f"{result['latency']['p99_us'] / 1000:.2f}",
        f"{more('nv_inference_queue_duration_us') / max(answered, 1):.0f}",
        f"{more('muster_batch_rows_sum') / max(more('muster_batch_rows_count'), 1):.1f}",
        f"{result['server']['cores']:.2f}" if result.get("server") else "–",
        f"{100 * statuses.get('503', 0) / max(sum(statuses.values()), 1):.0f} %",
    ]


if __name__ == "__main__":
    main()
