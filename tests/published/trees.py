"""Boosted trees of the size of the article's, under its advanced job."""

import csv
import io
import json
import random
import tempfile
from pathlib import Path

from serving import prices, processors, recommend

FEATURES = 30
# What is swept.
RANGES = {"OMP_NUM_THREADS": ["1", "2", "4"], "SAGEMAKER_MODEL_SERVER_WORKERS": ["1", "2"]}


def bodies(folder):
    """Writes a forest of some ten megabytes, as the article's is, as `model.json`. Gives a file twice: with a body of
    one row, and, when it is asked for again, with one of 10 KB."""
    (folder / "model.json").write_text(json.dumps(forest(1000, 6)))
    row = ",".join(f"{random.Random(1).uniform(-3, 3):.6f}" for _ in range(FEATURES)) + "\n"
    payload = folder / "body.csv"
    for name, body in (("row", row), ("rows, 10 KB", row * (10240 // len(row)))):
        payload.write_text(body)
        print(f"{name}:\n", flush=True)
        yield payload


def trees(given):
    """The article's advanced job, threads times workers, on one core and on two."""
    scale = 40 if given.quick else 4
    with tempfile.TemporaryDirectory() as folder:
        folder = Path(folder)
        for payload in bodies(folder):
            (folder / "job.json").write_text(json.dumps(fraud_job(folder / "model.json")))
            prices(folder / "prices.toml")
            recommend(
                given, "--input-json", folder / "job.json", "--payload", payload, "--time-scale", scale,
                "--prices", folder / "prices.toml", "--describe", folder / "describe.json",
                "--table", folder / "table.md", "--series", folder / "series.csv", "--state", folder / "state")
            print((folder / "table.md").read_text(), flush=True)
            rows = csv.DictReader(io.StringIO((folder / "series.csv").read_text()))
            highest = max(float(it["replies_per_s"]) * 60 for it in rows)
            print(f"The most of a window: {highest:.0f} requests/min\n", flush=True)


def fraud_job(model):
    """The job of the article, on parts of this machine."""
    ranges = [{"Name": name, "Value": values} for name, values in RANGES.items()]
    cores = [it for it in (1, 2) if it <= len(processors())]
    machines = [{"InstanceType": f"local.cpu{it}", "EnvironmentParameterRanges": {"CategoricalParameterRanges": ranges}}
                for it in cores]
    phases = [{"InitialNumberOfUsers": it, "SpawnRate": it, "DurationInSeconds": 120} for it in (2, 6)]
    return {
        "JobName": "fraud-advanced", "JobType": "Advanced", "RoleArn": "arn:aws:iam::111111111111:role/x",
        "InputConfig": {
            "ModelName": str(model), "JobDurationInSeconds": 7200,
            "TrafficPattern": {"TrafficType": "PHASES", "Phases": phases},
            "ResourceLimit": {"MaxNumberOfTests": 12, "MaxParallelOfTests": 1}, "EndpointConfigurations": machines},
        "StoppingConditions": {"MaxInvocations": 30000, "FlatInvocations": "Continue",
                               "ModelLatencyThresholds": [{"Percentile": "P95", "ValueInMilliseconds": 100}]}}


def forest(count, depth):
    """A classifier of random trees in XGBoost's JSON."""
    chance = random.Random(0)
    inner, nodes = 2**depth - 1, 2 ** (depth + 1) - 1

    def tree(number):
        is_inner = [it < inner for it in range(nodes)]
        conditions = [chance.uniform(-2, 2) if it else chance.uniform(-0.05, 0.05) for it in is_inner]
        zeros = [0] * nodes
        return {
            "base_weights": conditions, "categories": [], "categories_nodes": [], "categories_segments": [],
            "categories_sizes": [], "default_left": zeros, "id": number,
            "left_children": [2 * at + 1 if it else -1 for at, it in enumerate(is_inner)],
            "right_children": [2 * at + 2 if it else -1 for at, it in enumerate(is_inner)],
            "parents": [2147483647] + [(at - 1) // 2 for at in range(1, nodes)],
            "loss_changes": zeros, "sum_hessian": [1.0] * nodes, "split_conditions": conditions,
            "split_indices": [chance.randrange(FEATURES) if it else 0 for it in is_inner], "split_type": zeros,
            "tree_param": {"num_deleted": "0", "num_feature": str(FEATURES), "num_nodes": str(nodes),
                           "size_leaf_vector": "1"}}

    model = {"gbtree_model_param": {"num_parallel_tree": "1", "num_trees": str(count)},
             "iteration_indptr": list(range(count + 1)), "tree_info": [0] * count,
             "trees": [tree(it) for it in range(count)]}
    parameters = {"base_score": "5E-1", "boost_from_average": "1", "num_class": "0",
                  "num_feature": str(FEATURES), "num_target": "1"}
    return {"learner": {"attributes": {}, "feature_names": [], "feature_types": [],
                        "gradient_booster": {"model": model, "name": "gbtree"}, "learner_model_param": parameters,
                        "objective": {"name": "binary:logistic", "reg_loss_param": {"scale_pos_weight": "1"}}},
            "version": [2, 1, 0]}
