"""A classifier of texts under more load than it can carry: behind muster, behind a queue of a fixed length, and behind
Gunicorn; and what a second core is worth."""

import json
import math
import statistics
import threading

from peers import ANSWERS_ALL
from processes import environment, free_port
from serving import HERE, Endpoint, Muster, bench, check_answered, made, processors, say, table, times
from table import TOLERATED

# Shares of the knee at which an open loop sends.
SHARES = (0.5, 0.8, 1, 1.5, 3, 10)
DEADLINE_MS = 1000
# Seconds after which a request is given up.
TIMEOUT = 10
TEXT = {"inputs": "I am super happy right now."}
# As many as MMS and TorchServe let wait.
QUEUE = 100
# Users of the comparison of one core with two.
USERS = 16


def load(given):
    """For each front the knee in a closed loop, then an open loop from half of it to ten times as much."""
    seconds = 1 if given.quick else 10
    model = given.model or made(given, "distilbert")
    file = given.work / "text.json"
    file.write_text(json.dumps(TEXT))
    body = ["--format", "invocations", "--content-type", "application/json", "--body", file]
    with Muster(given, model) as server:
        expected = server.ask("/invocations", TEXT)
    rows = []
    for name, start in FRONTS.items():
        say(name)
        with start(given, model) as server:
            compare(name, server.ask("/invocations", TEXT), expected)
            url = [f"http://127.0.0.1:{server.port}", "--pid", server.pid, *body]
            rows += overload(given, name, server, url, seconds)
    table(
        ["front", "load, × its knee>", "due /s>", "replies /s>", "within 1 s, % of the knee>", "p95 of answers, ms>",
         "refused, % of those due>", "p95 of refusals, ms>", "connections lost>", "not answered>", "/ping p99, ms>"],
        rows)
    if len(processors()) > 1:
        scaling(given, model, body)


def gunicorn(given, model):
    """Flask, `tokenizers` and ONNX Runtime, a worker of one thread for each processor."""
    folder = HERE / "text_front"
    programs = environment(given.work / "environments/text_front", folder / "requirements.txt", say)
    port = free_port()
    command = [programs / "gunicorn", "--chdir", folder, "app:app", "--bind", f"127.0.0.1:{port}"]
    command += ["--workers", len(processors())]
    variables = {"PUBLISHED_FOLDER": str(model), "PYTHONDONTWRITEBYTECODE": "1"}
    return Endpoint(command, given.work / "gunicorn-text.log", port, variables=variables)


FRONTS = {
    "muster": Muster,
    f"a queue of {QUEUE}, then 503": lambda given, model: Muster(
        given, model, f"--default-max-queue-size={QUEUE}", *ANSWERS_ALL),
    "Gunicorn": gunicorn,
}


def compare(name, given, expected):
    """Ends the program where the first class or its score is another."""
    one, other = given[0], expected[0]
    if one["label"] != other["label"] or not math.isclose(one["score"], other["score"], abs_tol=1e-3):
        raise SystemExit(f"{name}: expected {other}, given {one}")


def overload(given, name, server, url, seconds):
    """The knee, which is said, and a row for each load; none where no load is answered in time."""
    limit = bench(given, *url, "--find-limit", "--duration", seconds, "--p95", f"{DEADLINE_MS}ms")
    in_time = [it for it in limit["steps"] if is_answered(it) and it["p95_us"] <= 1e3 * DEADLINE_MS]
    if not in_time:
        print(f"{name} has no knee: at no load are 95 % answered within {DEADLINE_MS} ms while {100 * TOLERATED:g} % fail "
              "at most\n", flush=True)
        return
    best = max(in_time, key=lambda it: it["throughput"])
    knee = best["throughput"]
    print(f"Knee of {name}: {knee:.0f} requests/s with {best['users']} users, p95 {best['p95_us'] / 1e3:.1f} ms, "
          f"{100 * best['server_cores']:.0f} % CPU (100 for each core)\n", flush=True)
    for share in SHARES:
        say(f"{share} × {knee:.0f} requests/s")
        pings, is_over = [], threading.Event()
        pinging = threading.Thread(target=ping_until, args=(server, is_over, pings))
        pinging.start()
        rate = max(knee * share, 1)
        report = bench(
            given, *url, "--rate", f"{rate:.1f}", "--duration", seconds, "--connections",
            # Enough for all that are due until one is given up.
            max(64, min(2000, int(rate * TIMEOUT))), "--deadline-ms", DEADLINE_MS, "--warm-up", 0.5,
            "--timeout", TIMEOUT)
        is_over.set()
        pinging.join()
        refused = sum(count for status, count in report["statuses"].items() if status in ("429", "503"))
        failures = report["failures"]
        yield [
            name, share, f"{rate:.0f}", f"{report['throughput']:.0f}", f"{100 * report['goodput'] / knee:.0f}",
            milliseconds(report["latency"]), f"{100 * refused / max(report['requests'], 1):.1f}",
            milliseconds(report["refusal_latency"]), sum(failures[it] for it in ("connect", "reset", "malformed")),
            failures["timeout"] + report["unsent"], f"{1e3 * percentile(pings, 0.99):.1f}"]


def is_answered(step):
    """Does a step of a climb have answers, and no more failures than may be?"""
    return 0 < step["requests"] and step["errors"] <= TOLERATED * step["requests"]


def milliseconds(latency):
    """The 95th percentile of an answer's time, where there are any."""
    return f"{latency['p95_us'] / 1e3:.1f}" if latency and latency["p95_us"] else "–"


def percentile(values, share):
    """Of some values."""
    return sorted(values)[int(share * (len(values) - 1))] if values else float("nan")


def ping_until(server, is_over, pings):
    """Asks for /ping ten times a second: the seconds of each answer. One that says that the server is not healthy, or
    none at all, takes for ever."""
    while not is_over.wait(0.1):
        status, seconds = server.ping()
        pings.append(seconds if status == 200 else math.inf)


def scaling(given, model, body):
    """A server that has one core, and one that has two, in turns."""
    pairs, seconds = (3, 1) if given.quick else (8, 4)
    cores = processors()
    with Muster(given, model, *ANSWERS_ALL, cpus=cores[:1], name="one") as one, \
            Muster(given, model, *ANSWERS_ALL, cpus=cores[:2], name="two") as two:
        url = [f"http://127.0.0.1:{it.port}" for it in (one, two)]
        found = bench(
            given, url[0], "--vs", url[1], "--pid", one.pid, "--vs-pid", two.pid, *body, "--connections", USERS,
            "--pairs", pairs, "--duration", seconds, "--most-steal", 100)
    for name, blocks in (("one core", "blocks_a"), ("two cores", "blocks_b")):
        check_answered(name, found[blocks])
    rates = [found[it]["throughput"] for it in ("typical_a", "typical_b")]
    used = [statistics.mean(100 * it["generator"]["cores"] for it in found[at]) for at in ("blocks_a", "blocks_b")]
    ratio = found["throughput"]
    table(["cores", "requests/s>", "× one core (95 %)>", "load generator, % of a core>"], [
        [1, f"{rates[0]:.1f}", "base", f"{used[0]:.0f}"],
        [2, f"{rates[1]:.1f}", times((ratio["median"], ratio["low"], ratio["high"])), f"{used[1]:.0f}"]])
    print(f"Published: 1 host 200 requests/s, 5 hosts 1000. This machine has {len(cores)} cores"
          + (": with both in use the load generator takes its share from the server.\n" if len(cores) == 2 else ".\n"))
