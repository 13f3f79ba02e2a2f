"""Asks text-embeddings-inference and muster for the same, and compares: statuses, headers, types and answers.

    ORT_DYLIB_PATH=libonnxruntime.so python3 tests/peers/tei_answers.py text-embeddings-router [target/debug/muster]

Both serve the same tiny folders, with the same library (1.24 or later). What differs on purpose is counted by its reason;
anything else is printed, and ends the program with 1. Numbers lie within 1e-4. Texts of errors are each server's own.
"""

import base64
import json
import math
import shutil
import struct
import sys
import tempfile
import time
from collections import Counter
from http.client import HTTPConnection, HTTPException
from pathlib import Path

from processes import Server, free_port
from tei_requests import every

ROOT = Path(__file__).resolve().parents[2]
FIXTURES = ROOT / "tests/fixtures/pipelines"
# Of sentence-transformers 5: TEI does not read the pooling of later ones. It takes sigmoid or softmax for every classifier.
FOLDERS = ("st-5", "sst2", "rerank", "roberta", "multi-label", "regression")
UNHEEDED = ("multi-label", "regression")
TOLERANCE = 1e-4
# Beside numbers of milliseconds: what each server adds, and TEI's constant `gpu+optimized`.
IGNORED = {"date", "content-length", "connection", "vary", "server-timing", "x-request-id", "x-compute-type", "allow"}


class Asked:
    """A server that is asked."""

    def __init__(self, command, folder, log):
        self.port = free_port()
        options = ["--hostname", "127.0.0.1", "--port", self.port, "--prometheus-port", free_port()]
        self.server = Server([*command, "--model-id", folder, *options], log)
        self.server.wait_until_right(self.problem, 60)

    def problem(self):
        status = self.ask("GET", "/health", None, {})[0]
        return None if status == 200 else f"status {status}"

    def ask(self, method, path, body, headers):
        """Status, headers, body; `(0, ..)` where no answer came."""
        connection = HTTPConnection("127.0.0.1", self.port, timeout=10)
        sent = body if body is None or isinstance(body, bytes) else json.dumps(body)
        try:
            connection.request(method, path, sent, headers)
            reply = connection.getresponse()
            return reply.status, {name.lower(): it for name, it in reply.getheaders()}, reply.read()
        except HTTPException as error:
            return 0, {}, repr(error).encode()
        finally:
            connection.close()


def folder_of(name, target):
    """A fixture's folder, with the sizes that TEI wants to be told."""
    overlay = FIXTURES / name / "overlay.json"
    if overlay.exists():
        said = json.loads(overlay.read_text())
        folder_of(said["base"], target)
        for it in said["removed"]:
            (target / it).unlink()
    shutil.copytree(FIXTURES / name / "folder", target, dirs_exist_ok=True)
    config = json.loads((target / "config.json").read_text())
    config |= {"hidden_size": config.get("hidden_size", 32), "num_hidden_layers": config.get("num_hidden_layers", 2)}
    (target / "config.json").write_text(json.dumps(config))
    return target


def alike(one, other):
    """Are these the same answers? Numbers, and those in base64, need only be near."""
    if isinstance(one, bool) or isinstance(other, bool):
        return one is other
    if isinstance(one, (int, float)) and isinstance(other, (int, float)):
        return math.isclose(one, other, rel_tol=TOLERANCE, abs_tol=TOLERANCE)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(alike, one, other))
    if isinstance(one, dict) and isinstance(other, dict):
        return set(one) == set(other) and all(alike(one[it], other[it]) for it in one)
    if isinstance(one, str) and isinstance(other, str) and one != other and len(one) > 40:
        return alike(floats(one), floats(other))
    return one == other


def floats(text):
    """The numbers in base64; the text itself where it is none."""
    try:
        raw = base64.b64decode(text, validate=True)
        return list(struct.unpack(f"<{len(raw) // 4}f", raw))
    except (ValueError, struct.error):
        return [text]


def parsed(body):
    """The JSON of a reply, if it is some."""
    try:
        return json.loads(body)
    except ValueError:
        return None


def differs(path, tei, muster):
    """What of the two replies differs, as words."""
    (status, headers, body), (our_status, our_headers, our_body) = tei, muster
    if status != our_status:
        return "status"
    for name in sorted(set(headers) | set(our_headers)):
        ours, theirs = our_headers.get(name), headers.get(name)
        is_time = name.endswith("-time")
        is_same = ours == theirs or (is_time and ours and theirs) or (path == "/vertex" and not theirs)
        if name not in IGNORED and not name.startswith("access-control-") and not is_same:
            return f"{name}: {theirs}, {ours}"
    one, other = parsed(body), parsed(our_body)
    if path == "/info" and one and other:
        names = ("served_model_name", "model_type", "model_dtype", "max_input_length", "max_client_batch_size")
        one, other = ({it: said[it] for it in (*names, "auto_truncate")} for said in (one, other))
    if isinstance(one, dict) and "error_type" in one and isinstance(other, dict):
        one, other = one["error_type"], other.get("error_type")
    return None if alike(one, other) else "body"


def reason(folder, request, tei, muster):
    """Why they differ on purpose; `None`: they should not."""
    _, path, body, _ = request
    status, headers, text = tei
    ours = muster[0]
    ids = body.get("inputs", body.get("input", body.get("ids"))) if isinstance(body, dict) else None
    has_ids = isinstance(ids, list) and any(isinstance(it, (int, list)) for it in ids)
    is_bare = status >= 400 and (not text or headers.get("content-type", "").startswith("text/plain"))
    given = body if isinstance(body, dict) else {}
    rules = (
        ("its framework's refusals are no JSON, muster's are", is_bare and status == ours),
        ("muster needs no type of content", status == 415),
        ("what is no JSON is 422 as all that cannot be read, 400 at OpenAI's", is_bare and status == 400 and ours >= 400),
        ("OpenAI's address has OpenAI's statuses and errors", "embeddings" in path and status >= 400 and ours in (400, 404)),
        ("muster takes null, capitals and objects with a text", is_bare and ours == 200),
        ("an id beyond the vocabulary is refused; it ends TEI, or is passed over", "999999" in json.dumps(ids)),
        ("ids without special tokens get them; prompts and texts beside ids", has_ids and status == 200),
        ("an embedder ranks, by cosine", path == "/rerank" and status == 424),
        ("with top_n a ranking is as long", "top_n" in given),
        ("a ranking needs a query", given.get("query") == "" and ours == 400),
        ("a task that the model has not may be named behind another mistake", {status, ours} == {422, 424}
         or {status, ours} == {400, 424}),
        ("an empty list of texts is 400 at every route", (status, ours) == (422, 400) and b'"Empty"' in muster[2]),
        ("a ranker says classes, too", path in ("/", "/invocations") and status == 422 and ours == 200),
        ("what follows the JSON is a mistake", isinstance(body, bytes) and status == 200 and ours == 422),
        ("problem_type says which function classes have", folder in UNHEEDED and status == ours == 200),
    )
    return next((why for why, holds in rules if holds), None)


def compare(folder, start_tei, muster, reasons):
    """Asks both for everything; how many answers differ without a reason."""
    tei, wrong = start_tei(), 0
    try:
        for request in every():
            method, path, body, _ = request
            replies = tei.ask(*request), muster.ask(*request)
            if replies[0][0] == 0:
                # It has ended, or is about to.
                time.sleep(0.5)
                tei.server.__exit__()
                tei = start_tei()
            what = differs(path, *replies)
            why = what and reason(folder, request, *replies)
            reasons[why or "the same"] += 0 if what and not why else 1
            if what and not why:
                wrong += 1
                print(f"{folder}: {method} {path} {str(body)[:100]}\n  {what}")
                for name, (status, _, said) in zip(("TEI   ", "muster"), replies):
                    print(f"  {name} {status} {said[:150].decode(errors='replace')}")
    finally:
        tei.server.__exit__()
    return wrong


def main():
    """Compares on every folder."""
    router = Path(sys.argv[1]).resolve()
    program = Path(sys.argv[2] if len(sys.argv) > 2 else ROOT / "target/debug/muster").resolve()
    reasons, wrong = Counter(), 0
    with tempfile.TemporaryDirectory() as work:
        for name in FOLDERS:
            folder = folder_of(name, Path(work) / name)
            muster = Asked([program, "text-embeddings-router"], folder, Path(work) / "muster.log")
            with muster.server:
                wrong += compare(name, lambda: Asked([router], folder, Path(work) / "tei.log"), muster, reasons)
    for why, count in reasons.most_common():
        print(f"{count:6} {why}")
    print(f"{wrong:6} differ without a reason")
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
