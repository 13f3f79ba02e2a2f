"""Every reply of muster beside that of SageMaker's XGBoost container: objectives, content types, Accept, modes.

    python3 tests/peers/xgboost_table.py [--container src] [--muster target/debug/muster] [--python python3]

`--container` is the folder `src` of a copy of https://github.com/aws/sagemaker-xgboost-container; without it that is
fetched. `--python` has what `xgboost_handlers.py` needs, which runs the container's own application and handler. This
program takes NumPy, SciPy and xgboost, and trains a small model for each objective.

Status, type and body must be equal, numbers in 32 bits: the container writes those widened to 64. Where the container
fails (500), or breaks off its own refusal, muster must have one of the answers that `instead` lists. A cell is one
request; the exit code is 1 where one differs.
"""

import argparse
import base64
import io
import json
import os
import pickle
import re
import struct
import subprocess
import sys
import tarfile
import tempfile
import urllib.error
import urllib.request
from pathlib import Path

import numpy as np
import xgboost

COMMIT = "cb8df91cd44c7b01c53ccf321fd3fdf3eb78adae"
ARCHIVE = f"https://github.com/aws/sagemaker-xgboost-container/archive/{COMMIT}.tar.gz"
HERE = Path(__file__).resolve().parent
COLUMNS = 4
KEYS = "predicted_label,labels,probability,probabilities,raw_score,raw_scores,predicted_score"
RECORDIO = "application/x-recordio-protobuf"
ACCEPTS = [None, "*/*", "text/csv", "application/json", "application/jsonlines", RECORDIO, "image/png"]
MODES = {
    "single": {},
    "batch": {"SAGEMAKER_BATCH": "true"},
    "selected": {"SAGEMAKER_INFERENCE_OUTPUT": KEYS},
    "selected batch": {"SAGEMAKER_INFERENCE_OUTPUT": KEYS, "SAGEMAKER_BATCH": "true"},
    "JSON by default": {"SAGEMAKER_DEFAULT_INVOCATIONS_ACCEPT": "application/json"},
    "multi-model": {"SAGEMAKER_MULTI_MODEL": "true"},
    "multi-model CSV by default": {
        "SAGEMAKER_MULTI_MODEL": "true", "SAGEMAKER_DEFAULT_INVOCATIONS_ACCEPT": "text/csv"},
    "multi-model selected": {"SAGEMAKER_MULTI_MODEL": "true", "SAGEMAKER_INFERENCE_OUTPUT": KEYS},
}


def models():
    """By name: the booster, and whether it is pickled."""
    random = np.random.default_rng(0)
    x = random.normal(size=(300, COLUMNS)).astype(np.float32)
    x[random.random(x.shape) < 0.1] = np.nan
    known = np.nan_to_num(x)
    binary, three = known[:, 0] > 0, (known[:, 0] > 0).astype(int) + (known[:, 1] > 0)
    two_labels, three_labels = known[:, :2] > [0, 0.2], known[:, :3] > 0
    positive = np.abs(known[:, 0]) + 0.1
    cases = {
        "logistic": ({"objective": "binary:logistic"}, binary),
        "logitraw": ({"objective": "binary:logitraw"}, binary),
        "hinge": ({"objective": "binary:hinge"}, binary),
        "softmax": ({"objective": "multi:softmax", "num_class": 3}, three),
        "softprob": ({"objective": "multi:softprob", "num_class": 3}, three),
        "softprob of two": ({"objective": "multi:softprob", "num_class": 2}, binary),
        "squarederror": ({"objective": "reg:squarederror"}, known[:, 0]),
        "absoluteerror": ({"objective": "reg:absoluteerror"}, known[:, 0]),
        "reg:logistic": ({"objective": "reg:logistic"}, binary),
        "gamma": ({"objective": "reg:gamma"}, positive),
        "tweedie": ({"objective": "reg:tweedie"}, positive),
        "poisson": ({"objective": "count:poisson"}, positive),
        "quantile": ({"objective": "reg:quantileerror", "quantile_alpha": 0.5}, known[:, 0]),
        "3 quantiles": ({"objective": "reg:quantileerror", "quantile_alpha": [0.1, 0.5, 0.9]}, known[:, 0]),
        "2 labels": ({"objective": "binary:logistic"}, two_labels),
        "2 labels logitraw": ({"objective": "binary:logitraw"}, two_labels),
        "2 labels hinge": ({"objective": "binary:hinge"}, two_labels),
        "3 labels": ({"objective": "binary:logistic"}, three_labels),
        "2 targets": ({"objective": "reg:squarederror"}, known[:, :2]),
        "vector leaves": (
            {"objective": "reg:squarederror", "multi_strategy": "multi_output_tree", "tree_method": "hist"},
            known[:, :3]),
    }
    trained = {}
    for name, (parameters, y) in cases.items():
        data = xgboost.DMatrix(x, np.asarray(y, dtype=np.float32))
        trained[name] = (xgboost.train({"max_depth": 3, "verbosity": 0, **parameters}, data, 4), False)
    trained["logistic, pickled"] = (trained["logistic"][0], True)
    return trained


def varint(number):
    out = b""
    while number > 127:
        out, number = out + bytes([number & 127 | 128]), number >> 7
    return out + bytes([number])


def part(number, content):
    return varint(number << 3 | 2) + varint(len(content)) + content


def record(values, keys=None, shape=None):
    """A row as SageMaker's SDK writes it."""
    tensor = part(1, np.asarray(values, "<f4").tobytes())
    if keys is not None:
        tensor += part(2, b"".join(map(varint, keys)))
    if shape is not None:
        tensor += part(3, varint(shape))
    message = part(1, part(1, b"values") + part(2, part(2, tensor)))
    return struct.pack("<II", 0xCED7230A, len(message)) + message + b"\0" * (-len(message) % 4)


def table():
    """Requests: what each is, its type and its body."""
    rows = np.random.default_rng(7).normal(size=(3, COLUMNS)).astype(np.float32)
    csv = "\n".join(",".join(repr(float(it)) for it in row) for row in rows)
    cut = lambda columns: "\n".join(",".join(line.split(",")[:columns]) for line in csv.split("\n"))
    libsvm = "\n".join("1 " + " ".join(f"{at}:{float(it)!r}" for at, it in enumerate(row)) for row in rows)
    from_one = "\n".join("1 " + " ".join(f"{at}:{float(it)!r}" for at, it in enumerate(row, 1)) for row in rows)
    dense = b"".join(map(record, rows))
    sparse = b"".join(record(row[[0, 2]], [0, 2], COLUMNS) for row in rows)
    usual = {
        "csv": ("text/csv", csv), "csv;label_size=1": ("text/csv; label_size=1", csv),
        "libsvm": ("text/libsvm", libsvm), "x-libsvm": ("text/x-libsvm", from_one),
        "recordio dense": (RECORDIO, dense), "recordio sparse": (RECORDIO, sparse),
    }
    wide = lambda extra: "\n".join(line + ",1" * extra for line in csv.split("\n"))
    odd = {
        "csv, one row": ("text/csv", csv.split("\n")[0] + "\n"), "csv, empty fields": ("text/csv", "1,,3,\n,2,,4"),
        "csv, tabs": ("text/csv", csv.replace(",", "\t")), "csv, name": ("csv", csv),
        "csv;label_size=5": ("text/csv;label_size=5", csv), "csv;label_size=0": ("TEXT/CSV; Label_Size=0", csv),
        "csv, words": ("text/csv", "a,b,c,d"), "csv, ragged": ("text/csv", "1,2,3,4\n1,2,3"),
        "csv, header": ("text/csv", "a,b,c,d\n1,2,3,4"), "empty": ("text/csv", ""),
        **{f"csv, {it} columns": ("text/csv", cut(it)) for it in range(1, COLUMNS)},
        **{f"csv, {COLUMNS + it} columns": ("text/csv", wide(it)) for it in (1, 2)},
        **{f"libsvm, {it} columns": ("text/libsvm", f"1 0:0.5 {it - 1}:0.25") for it in range(2, COLUMNS + 3)},
        "libsvm, one index twice": ("text/libsvm", "1 0:0.5 0:-2 1:1\n0 1:0.5 1:0.75 1:-3 2:1"),
        "libsvm, words": ("text/libsvm", "a:b"), "libsvm, without labels": ("text/libsvm", "0:1 1:2"),
        "recordio, words": (RECORDIO, "no frame"),
        **{f"recordio dense, {it} columns": (RECORDIO, b"".join(record(row[:it]) for row in rows))
           for it in range(1, COLUMNS)},
        "recordio dense, 5 columns": (RECORDIO, record(np.ones(5))),
        "recordio, ragged": (RECORDIO, record(np.ones(4)) + record(np.ones(3))),
        **{f"recordio sparse, shape {it}": (RECORDIO, record([0.5], [0], it)) for it in range(1, COLUMNS + 2)},
        "parquet": ("application/x-parquet", "PAR1"),
    }
    return usual, odd


class Container:
    """The container's own code, in a process of its own."""

    def __init__(self, python, source, folder, variables):
        self.command = [python, str(HERE / "xgboost_handlers.py"), str(source), str(folder)]
        self.environment = {**clean(), **variables}
        self.answered = 0
        self.start()

    def start(self):
        self.process = subprocess.Popen(self.command, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        stderr=subprocess.DEVNULL, text=True, env=self.environment)

    def ask(self, content_type, accept, body):
        request = {"type": content_type, "accept": accept, "body": base64.b64encode(body).decode()}
        self.process.stdin.write(json.dumps(request) + "\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        if not line and self.answered == 0:
            sys.exit("the container's code does not run: start tests/peers/xgboost_handlers.py by hand")
        if not line:
            # A request that ends it ends a worker of the container, which has 500 or 502 then.
            print(f"the container ends at {content_type}, Accept {accept}: {body[:80]}")
            self.process.wait()
            self.start()
            return 500, "", b""
        self.answered += 1
        reply = json.loads(line)
        return reply["status"], reply["type"].lower(), base64.b64decode(reply["body"])

    def stop(self):
        self.process.stdin.close()
        self.process.wait()


def clean():
    """The environment without variables that would speak to either."""
    return {key: value for key, value in os.environ.items() if not key.startswith(("SAGEMAKER_", "MUSTER_"))}


class Muster:
    def __init__(self, program, folder, variables):
        is_multi = "SAGEMAKER_MULTI_MODEL" in variables
        ports = [f"--{it}-port=0" for it in ("http", "grpc", "sagemaker", "metrics")]
        place = [f"--sagemaker-models-root={Path(folder).parent}"] if is_multi else ["serve", str(folder)]
        self.process = subprocess.Popen(
            [program, *place, "--drain-delay-secs=0", *ports], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            text=True, env={**clean(), **variables})
        log = []
        for line in self.process.stdout:
            log.append(line)
            if "ready to serve" in line or is_multi and "service=sagemaker" in line:
                break
        else:
            sys.exit("muster did not start:\n" + "".join(log))
        port = re.search(r"service=sagemaker address=\S+:(\d+)", "".join(log))[1]
        self.address = f"http://127.0.0.1:{port}"
        self.path = "/invocations"
        if is_multi:
            load = json.dumps({"model_name": "m", "url": str(folder)}).encode()
            status, _, said = self.send("/models", {"Content-Type": "application/json"}, load)
            if status != 200:
                sys.exit(f"muster did not load the model: {said}")
            self.path = "/models/m/invoke"

    def send(self, path, headers, body):
        request = urllib.request.Request(self.address + path, body, headers, method="POST")
        try:
            reply = urllib.request.urlopen(request)
        except urllib.error.HTTPError as error:
            reply = error
        return reply.status, (reply.headers.get("content-type") or "").lower(), reply.read()

    def ask(self, content_type, accept, body):
        headers = {"Content-Type": content_type}
        if accept:
            headers["Accept"] = accept
        return self.send(self.path, headers, body)

    def stop(self):
        self.process.terminate()
        self.process.communicate()


NUMBER = re.compile(r"-?(?:\d+\.?\d*(?:[eE][-+]?\d+)?|Infinity|inf)")


def records(body):
    """The labels of records, each a list of numbers by its name."""
    found, at = [], 0
    while at < len(body):
        magic, length = struct.unpack_from("<II", body, at)
        if magic != 0xCED7230A:
            raise ValueError("no frame")
        found.append(dict(labels(body[at + 8:at + 8 + length])))
        at += 8 + (length + 3) // 4 * 4
    return found


def fields(message):
    at = 0
    def number():
        nonlocal at
        value = shift = 0
        while True:
            byte = message[at]
            at, value, shift = at + 1, value | (byte & 127) << shift, shift + 7
            if byte < 128:
                return value
    while at < len(message):
        key, length = number(), number()
        yield key >> 3, message[at:at + length]
        at += length


def labels(message):
    for field, entry in fields(message):
        if field == 2:
            entry = dict(fields(entry))
            floats = dict(fields(dict(fields(entry[2]))[2])).get(1, b"")
            yield entry[1].decode(), np.frombuffer(floats, "<f4").tolist()


def equal_numbers(one, other):
    with np.errstate(all="ignore"):
        return np.array_equal(np.float32(one), np.float32(other), equal_nan=True)


def same_json(ours, theirs):
    """Equal but for the digits behind 32 bits. Objects have no order: that of what cannot be said is a set's there."""
    if isinstance(theirs, dict):
        return isinstance(ours, dict) and ours.keys() == theirs.keys() and all(
            same_json(ours[key], theirs[key]) for key in theirs)
    if isinstance(theirs, list):
        return isinstance(ours, list) and len(ours) == len(theirs) and all(map(same_json, ours, theirs))
    return type(ours) is type(theirs) and equal_numbers(ours, theirs)


def same_text(ours, theirs):
    """Equal but for the digits behind 32 bits."""
    if NUMBER.sub("#", ours) != NUMBER.sub("#", theirs):
        return False
    pairs = zip(NUMBER.findall(ours), NUMBER.findall(theirs))
    return all(("." in one) == ("." in other) and equal_numbers(float(one), float(other)) for one, other in pairs)


def same(ours, theirs):
    (our_status, our_type, our_body), (status, content_type, body) = ours, theirs
    if our_status != status:
        return False
    if status != 200:
        return True
    if our_type != content_type:
        return False
    if content_type == RECORDIO and body.startswith(b"\n#\xd7\xce"):
        mine, other = records(our_body), records(body)
        return len(mine) == len(other) and all(
            one.keys() == two.keys() and all(equal_numbers(one[key], two[key]) for key in one)
            for one, two in zip(mine, other))
    mine, other = our_body.decode(errors="replace"), body.decode()
    if other[:1] in ("{", "[") and "json" in content_type:
        if mine.endswith("\n") != other.endswith("\n"):
            return False
        one, two = (list(map(json.loads, it.splitlines())) for it in (mine, other))
        return same_json(one, two)
    return same_text(mine, other)


def instead(mode, name, content_type, accept):
    """What muster may answer where the container has 500."""
    if name in ("empty",):
        return {204}
    if "json" in content_type or "parquet" in content_type or "label_size=5" in content_type.lower():
        return {415}
    # JSON lines and records of scores; what is selected of objectives that the container has no keys for.
    return {200, 400, 406, 415}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--container")
    parser.add_argument("--muster", default=HERE.parents[1] / "target/debug/muster")
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--only", help="only objectives with this in their name")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        source = given.container
        if source is None:
            archive = urllib.request.urlopen(ARCHIVE, timeout=60).read()
            tarfile.open(fileobj=io.BytesIO(archive)).extractall(folder, filter="data")
            source = next(Path(folder).glob("*/src"))
        sys.exit(compare(given, Path(source), Path(folder)))


def compare(given, source, folder):
    cells = different = failed = 0
    usual, odd = table()
    for name, (booster, is_pickled) in models().items():
        before = cells, different
        if given.only and given.only not in name:
            continue
        place = folder / name.replace(" ", "-").replace(":", "-").replace(",", "")
        place.mkdir()
        file = place / "xgboost-model"
        if is_pickled:
            file.write_bytes(pickle.dumps(booster))
        else:
            booster.save_model(place / "m.ubj")
            (place / "m.ubj").rename(file)
        requests = [(what, *it, accept) for what, it in usual.items() for accept in ACCEPTS]
        if name.startswith("logistic"):
            requests += [(what, *it, None) for what, it in odd.items()]
        for mode, variables in MODES.items():
            container = Container(given.python, source, place, variables)
            muster = Muster(given.muster, place, variables)
            wrong = 0
            for what, content_type, body, accept in requests:
                body = body.encode() if isinstance(body, str) else body
                theirs = container.ask(content_type, accept, body)
                ours = muster.ask(content_type, accept, body)
                cells += 1
                if theirs[0] == 500:
                    failed += 1
                    is_right = ours[0] in instead(mode, what, content_type, accept)
                else:
                    is_right = same(ours, theirs)
                if not is_right:
                    wrong += 1
                    print(f"{name}, {mode}, {what}, Accept {accept}:\n  muster    {ours[0]} {ours[1]} "
                          f"{ours[2][:160]}\n  container {theirs[0]} {theirs[1]} {theirs[2][:160]}")
            different += wrong
            container.stop()
            muster.stop()
        print(f"{name}: {cells - before[0]} cells, {different - before[1]} different", flush=True)
    print(f"{cells} cells, {different} different; in {failed} of them the container fails, and muster may answer")
    return 1 if different else 0


if __name__ == "__main__":
    main()
