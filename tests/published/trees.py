"""Boosted trees of the size of the article's: its advanced job, and what threads and workers are worth."""

import csv
import io
import json
import random
import statistics
import sys
import tempfile
from pathlib import Path

from serving import prices, processors, ratio, recommend, say, table, times

FEATURES = 30
# What is swept.
RANGES = {"OMP_NUM_THREADS": ["1", "2", "4"], "SAGEMAKER_MODEL_SERVER_WORKERS": ["1", "2"]}
# Users where their number stays.
USERS = 8


def model_and_row(folder):
    """Writes a forest of some ten megabytes, as the article's is, as `model.json`. Gives a row for it, as CSV."""
    (folder / "model.json").write_text(json.dumps(forest(1000, 6)))
    return ",".join(f"{random.Random(1).uniform(-3, 3):.6f}" for _ in range(FEATURES)) + "\n"


def bodies(folder):
    """Writes the model. Gives a file twice: with a body of one row, and, when it is asked for again, with one of
    10 KB."""
    row = model_and_row(folder)
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


def workers(given):
    """Threads times workers with as many users throughout, in several jobs whose order is there and back: what a thread
    or a worker more is worth, with its interval."""
    jobs, seconds = (3, 1) if given.quick else (6, 3)
    with tempfile.TemporaryDirectory() as folder:
        for payload in bodies(Path(folder)):
            found = {}
            for turn in range(jobs):
                say(f"job {turn + 1} of {jobs}")
                for key, rate in job(given, Path(folder), payload, seconds, -1 if turn % 2 else 1):
                    found.setdefault(key, []).append(rate)
            print(f"{USERS} users, the median of {jobs} jobs of {seconds} s for each row. Published: 3 to 5 threads "
                  "within 8 %; 1 against 3 workers 2.1 ×, on hosts of 2 and 8 vCPU.\n")
            table(
                ["machine", "workers", "threads", "requests/min>", "× 1 thread (95 %)>", "", "× 1 worker (95 %)>"],
                [cells(found, *key) for key in sorted(found)])


def job(given, folder, payload, seconds, order):
    """The machine, workers and threads of each setting, and its requests a minute. `order` is 1, or -1 for the other
    way round."""
    machines = [f"local.cpu{it}" for it in (1, 2) if it <= len(processors())]
    ranges = (it for name, values in RANGES.items() for it in ("--env", f"{name}={','.join(values[::order])}"))
    recommend(
        given, "--model", folder / "model.json", "--payload", payload, "--content-type", "text/csv",
        "--instance", ",".join(machines[::order]), *ranges, "--phases", f"{USERS}:0:{seconds}", "--flat", "continue",
        "--max-tests", 12, "--describe", folder / "describe.json", "--steps", folder / "steps.json",
        "--state", folder / "state", "--fresh")
    for step in json.loads((folder / "steps.json").read_text())["Steps"]:
        measured = step["InferenceBenchmark"]
        if step["Status"] != "COMPLETED":
            sys.exit(f"a step of the job has failed: {measured.get('FailureReason')}")
        values = {it["Key"]: it["Value"] for it in measured["ModelConfiguration"]["EnvironmentParameters"]}
        threads, workers_of_step = (values[name] for name in RANGES)
        machine = measured["EndpointConfiguration"]["InstanceType"]
        yield (machine, workers_of_step, threads), measured["Metrics"]["MaxInvocations"]


def cells(found, machine, count, threads):
    """The row of a setting."""
    numbers = found[machine, count, threads]
    by_thread, by_worker = ratio(numbers, found[machine, count, "1"]), ratio(numbers, found[machine, "1", threads])
    said = "–" if threads == "1" else verdict(by_thread, len(numbers))
    return [machine, count, threads, f"{statistics.median(numbers):.0f}", times(by_thread), said, times(by_worker)]


def verdict(found, count):
    """Is there a difference? Fewer than six ratios have no interval of 95 %."""
    if count < 6:
        return "too few jobs"
    return "no difference shown" if found[1] <= 1 <= found[2] else "differs"


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
