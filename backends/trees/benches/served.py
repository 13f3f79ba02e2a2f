"""Rows of CSV through an XGBoost file beside the sample model `fraud`, each by a server on one processor, in turns.

    python3 backends/trees/benches/served.py [--muster target/dist/muster] [--pairs 10] [--seconds 2]
    python3 backends/trees/benches/served.py --make FILE [--trees 100] [--depth 6]

The file has full trees over 30 features with made-up splits, as XGBoost 1.7 writes JSON. `--make` only writes it: 260
trees of depth 9 have 10 MB.
"""

import argparse
import json
import random
import re
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path

FEATURES = 30
ROOT = Path(__file__).resolve().parents[3]


def tree(number, depth, chance):
    """A full tree, its nodes breadth-first."""
    splits, nodes = 2**depth - 1, 2 ** (depth + 1) - 1
    inner = lambda value, leaf: [value(it) if it < splits else leaf for it in range(nodes)]
    conditions = [round(chance.gauss(0, 1) * (1 if it < splits else 0.01), 5) for it in range(nodes)]
    return {
        "base_weights": [0.0] * nodes,
        "categories": [], "categories_nodes": [], "categories_segments": [], "categories_sizes": [],
        "default_left": inner(lambda it: chance.randrange(2), 0),
        "id": number,
        "left_children": inner(lambda it: 2 * it + 1, -1),
        "right_children": inner(lambda it: 2 * it + 2, -1),
        "loss_changes": [0.0] * nodes,
        "parents": [2147483647] + [(it - 1) // 2 for it in range(1, nodes)],
        "split_conditions": conditions,
        "split_indices": inner(lambda it: chance.randrange(FEATURES), 0),
        "split_type": [0] * nodes,
        "sum_hessian": [float(2 ** (depth - (it + 1).bit_length() + 1)) for it in range(nodes)],
        "tree_param": {"num_deleted": "0", "num_feature": str(FEATURES), "num_nodes": str(nodes),
                       "size_leaf_vector": "0"},
    }


def forest(trees, depth):
    chance = random.Random(7)
    model = {
        "gbtree_model_param": {"num_parallel_tree": "1", "num_trees": str(trees), "size_leaf_vector": "0"},
        "tree_info": [0] * trees,
        "trees": [tree(it, depth, chance) for it in range(trees)],
    }
    learner = {
        "attributes": {}, "feature_names": [], "feature_types": [],
        "gradient_booster": {"model": model, "name": "gbtree"},
        "learner_model_param": {"base_score": "5E-1", "boost_from_average": "1", "num_class": "0",
                                "num_feature": str(FEATURES), "num_target": "1"},
        "objective": {"name": "binary:logistic", "reg_loss_param": {"scale_pos_weight": "1"}},
    }
    return json.dumps({"learner": learner, "version": [1, 7, 6]}, separators=(",", ":"))


def start(muster, model, port):
    """A server on the first processor, once it is ready."""
    ports = [f"--sagemaker-port={port}", "--http-port=0", "--grpc-port=0", "--metrics-port=0"]
    command = ["taskset", "-c", "0", muster, "serve", model, *ports, "--http-address=127.0.0.1"]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    for _ in range(300):
        try:
            urllib.request.urlopen(f"http://127.0.0.1:{port}/ping", timeout=1)
            return process
        except OSError:
            time.sleep(0.1)
    process.kill()
    sys.exit(f"{model} is not served: {' '.join(command)}")


def main():
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("--muster", default=str(ROOT / "target/dist/muster"))
    arguments.add_argument("--pairs", type=int, default=10)
    arguments.add_argument("--seconds", type=int, default=2)
    arguments.add_argument("--port", type=int, default=18480)
    arguments.add_argument("--make", type=Path)
    arguments.add_argument("--trees", type=int, default=100)
    arguments.add_argument("--depth", type=int, default=6)
    given = arguments.parse_args()
    if given.make:
        given.make.write_text(forest(given.trees, given.depth))
        return
    with tempfile.TemporaryDirectory() as place:
        file, row = Path(place) / "xgboost.json", Path(place) / "row.csv"
        file.write_text(forest(given.trees, given.depth))
        row.write_text(",".join(["0.25"] * FEATURES))
        sample = str(ROOT / "model_repository/fraud")
        servers = []
        try:
            servers.append(start(given.muster, str(file), given.port))
            servers.append(start(given.muster, sample, given.port + 1))
            bench = ["taskset", "-c", "1", given.muster, "bench", f"http://127.0.0.1:{given.port}", "--vs",
                     f"http://127.0.0.1:{given.port + 1}", "--format", "invocations", "--body", str(row),
                     "--content-type", "text/csv", "-c", "16", "-d", str(given.seconds), "--pairs", str(given.pairs),
                     "--most-steal", "100"]
            print(f"first: an XGBoost file of {given.trees} trees of depth {given.depth}; second: the sample `fraud`")
            said = subprocess.run(bench, check=True, capture_output=True, text=True).stdout
            print(said)
            rates = re.findall(r"([\d,.]+) ?(?:requests/s|/s)", said)
            print("a minute:", *(f"{float(it.replace(',', '')) * 60:,.0f}" for it in rates[:2]))
        finally:
            for server in servers:
                server.terminate()
                server.wait()


if __name__ == "__main__":
    main()
