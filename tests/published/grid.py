"""A small BERT in four forms under four settings, users added step by step, in the columns of the published table."""

import json
import math
import random
import statistics
import sys
import tempfile
from pathlib import Path

from serving import Muster, in_turns, made, prices, processors, ratio, recommend, say, table, times

LENGTHS = (64, 128)
SETTINGS = ("base", "db", "ig2", "ig2-db")
# By form: what answers may differ by from the graph as it was exported, of numbers that are normalised to about 1.
# Weights of eight bits are another model.
FORMS = {"torchscript": 2e-3, "onnx-as-exported": 0.0, "onnx": 2e-3, "int8": 0.5}
# Invocations per minute and instance that were published for BERT-large: on hosts with one GPU, of 4 and 8 vCPU, and on
# one with four.
PUBLISHED = {
    "torchscript": {
        "base": (490, 544, 2138), "db": (529, 517, 2110), "ig2": (906, 1054, 3862), "ig2-db": (892, 1017, 3822)},
    "onnx": {
        "base": (643, 718, 2892), "db": (1078, 1335, 5356), "ig2": (2202, 1363, 5210), "ig2-db": (3192, 1369, 5235)},
}
TARGET, SLA_MS = 30000, 500


def bert(given):
    """One table for each length of text."""
    # Users are added two by two.
    steps, seconds, rounds = (2, 2, 1) if given.quick else (8, 2, 3)
    machine = f"local.cpu{min(2, len(processors()))}"
    for length in LENGTHS[: 1 if given.quick else None]:
        folder = made(given, f"bert-{length}")
        differences = compare(given, folder / "base", length)
        with tempfile.TemporaryDirectory() as aside:
            aside = Path(aside)
            prices(aside / "prices.toml")
            (aside / "body.json").write_text(json.dumps({"inputs": question(length)}))

            def measure(key):
                form, setting = key
                say(f"{length} tokens, {form}, {setting}")
                recommend(
                    given, "--model", folder / setting / form, "--payload", aside / "body.json",
                    "--content-type", "application/json", "--instance", machine, "--stairs", f"2:{steps}:{seconds}",
                    "--max-invocations", TARGET, "--latency-ms", SLA_MS, "--prices", aside / "prices.toml",
                    "--describe", aside / "job.json", "--state", aside / "state", "--fresh",
                    # Rows of eight bits depend on those that run with them.
                    "--tolerance", 1e-2 if form != "int8" else 1)
                return json.loads((aside / "job.json").read_text())["InferenceRecommendations"][0]

            found = in_turns(rounds, [(form, setting) for form in FORMS for setting in SETTINGS], measure)
        print(f"{length} tokens, {machine}, users 2, 4, .. {2 * steps} for {seconds} s each, {TARGET} a minute within "
              f"{SLA_MS} ms; medians of {rounds} rounds in turns, of ratios the least and the most of these, too. "
              "The published hosts have 4 and 8 vCPU with one GPU, and 48 with four.\n")
        table(
            ["form", "setting", "instances>", "invocations/min>", "p95 ms>", "$ per hour>", "× base>", "published>",
             "× TorchScript, same setting>", "published>", "difference>"],
            [cells(found, form, setting, differences) for form in FORMS for setting in SETTINGS])


def cells(found, form, setting, differences):
    """The row of a form and a setting: what is between its rounds."""
    for job in found[form, setting]:
        rate, count = job["Metrics"]["MaxInvocations"], job["EndpointConfiguration"]["InitialInstanceCount"]
        expected = math.ceil(TARGET / rate)
        if count != expected:
            sys.exit(f"{form}, {setting}: expected {expected} instances for {TARGET} of {rate} a minute, given {count}")
    rate, latency, hour = (
        statistics.median(numbers(found[form, setting], it)) for it in ("MaxInvocations", "ModelLatency", "CostPerHour"))
    return [
        form, setting, math.ceil(TARGET / rate), f"{rate:.0f}", f"{latency:.0f}", f"{hour:.3f}",
        beside(found, (form, setting), (form, "base")), ratios(form, setting, form, "base"),
        beside(found, (form, setting), ("torchscript", setting)), ratios(form, setting, "torchscript", setting),
        f"{differences[form]:.1e}"]


def numbers(jobs, metric):
    """A metric of each job."""
    return [job["Metrics"][metric] for job in jobs]


def beside(found, key, other):
    """By how much one carries more than the other, of the rounds that both had."""
    return times(ratio(*(numbers(found[it], "MaxInvocations") for it in (key, other))))


def ratios(form, setting, other_form, other_setting):
    """What the article has for these two, on its three hosts."""
    if form not in PUBLISHED or other_form not in PUBLISHED:
        return "–"
    pairs = zip(PUBLISHED[form][setting], PUBLISHED[other_form][other_setting])
    return ", ".join(f"{one / other:.2f}" for one, other in pairs)


def question(length):
    """The inputs of a request: one text, no part of which is masked."""
    chance = random.Random(0)
    ids = [chance.randrange(30522) for _ in range(length)]
    return [{"name": name, "datatype": "INT32", "shape": [1, length], "data": data}
            for name, data in (("ids", ids), ("mask", [1] * length))]


def compare(given, repository, length):
    """By form the largest difference from the graph as it was exported. Ends the program where one is too large."""
    with Muster(given, "--model-repository", repository) as server:
        answers = {form: server.infer(form, question(length)) for form in FORMS}
    found = {}
    for form, limit in FORMS.items():
        found[form] = max(
            abs(one - other) for name, numbers in answers["onnx-as-exported"].items()
            for one, other in zip(answers[form][name], numbers))
        if found[form] > limit:
            sys.exit(f"{form}: expected answers within {limit} of the exported graph's, given {found[form]:.1e}")
    return found
