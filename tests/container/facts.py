"""What a container of this image does: one function for each fact, whose text is its line in the table. A fact that
does not hold raises `Failed`; one that does gives what was measured."""

import os
import re
import time
from datetime import datetime
from pathlib import Path

from engine import Container, Failed, docker, ended
from models import FIXTURES
from wire import Example, Load, announce, ask, speaks_http2, status, wait_healthy

FACTS = []
# Seconds from the start of the process to the first 200.
SOON = 1.0
HARDENED = ["--user", "12345:0", "--read-only", "--cap-drop", "ALL", "--security-opt", "no-new-privileges"]
KSERVE = "application/vnd.sagemaker-triton.binary+json;json-header-size="


def fact(text):
    """Puts a function into the table."""

    def put(function):
        FACTS.append((text, function))
        return function

    return put


def expect(holds, text):
    """The condition, or a failure."""
    if not holds:
        raise Failed(text)


def served(proof, model="single", options=(), args=("serve",)):
    """A container of the image over one of the folders of models."""
    return Container(proof.image, args, [*proof.models.mount(model), *options], proof.network)


def example():
    """The right answers of the model in the folder `single`."""
    return Example(FIXTURES / "expected/mlp.json")


def line_with(log, text):
    """The first log line with that text."""
    line = next((it for it in log.splitlines() if text in it), None)
    expect(line is not None, f"no log line has '{text}': {log.splitlines()[-3:]}")
    return line


def moment(text):
    """Seconds since 1970 of a time as logs and the engine write it: with up to nine digits behind the point."""
    found = re.match(r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(\.\d+)?Z", text)
    expect(found, f"no time: {text[:40]}")
    return datetime.fromisoformat(found[1] + "+00:00").timestamp() + float(found[2] or 0)


@fact("what the image says of itself: entry point, ports, signal, health check, labels")
def description(proof):
    config = proof.inspect()["Config"]
    expect(config["Entrypoint"] == ["/muster"] and not config.get("Cmd"), f"starts {config['Entrypoint']}")
    expect(sorted(config["ExposedPorts"]) == [f"{port}/tcp" for port in (8000, 8001, 8002, 8080)], config["ExposedPorts"])
    expect(config.get("StopSignal") == "SIGTERM", config.get("StopSignal"))
    expect(config["Healthcheck"]["Test"] == ["CMD", "/muster", "health"], config["Healthcheck"])
    for name in ("accept-bind-to-port", "multi-models", "bidirectional-streaming"):
        label = config["Labels"].get(f"com.amazonaws.sagemaker.capabilities.{name}")
        expect(label == "true", f"label {name}: {label}")
    for name in ("title", "licenses"):
        expect(config["Labels"].get(f"org.opencontainers.image.{name}"), f"no label {name}")
    return f"user {config['User'] or 'root'}"


@fact("`serve`: /ping refuses or says 503, then 200 with an empty body, within a second of the process's start")
def start(proof):
    with served(proof) as container:
        before, healthy = wait_healthy(container)
        expect(set(before) <= {None, 503}, f"answers before 200: {before}")
        whole = healthy - container.asked
        # On the wall clock, since the engine and the log have no other.
        started = moment(container.inspect()["State"]["StartedAt"])
        ready = moment(line_with(container.log(), "ready to serve"))
        expect(ready - started < SOON, f"ready {ready - started:.2f} s after the start of the process")
        return f"docker run → 200: {whole * 1000:.0f} ms; process → ready: {(ready - started) * 1000:.0f} ms"


@fact("a model that takes 3 s to load: 503 meanwhile, then 200")
def slow_model(proof):
    with served(proof, "slow") as container:
        before, healthy = wait_healthy(container)
        expect(503 in before and healthy - container.asked > 3, f"answers before 200: {before}")
        return f"{healthy - container.asked:.1f} s"


@fact("CSV, JSON and KServe v2 with binary tensors give the right numbers on /invocations")
def formats(proof):
    rows = example()
    with served(proof) as container:
        wait_healthy(container)

        def invoke(body, media_type):
            code, headers, reply = ask(container.address(), 8080, "/invocations", body, {"Content-Type": media_type})
            expect(code == 200, f"{media_type}: {code} {reply[:200]}")
            return headers, reply

        _, reply = invoke(rows.csv(), "text/csv")
        rows.check_csv(reply)
        rows.check_json(invoke(rows.kserve_json(), "application/json")[1])
        body, head = rows.kserve_binary()
        headers, reply = invoke(body, KSERVE + str(head))
        expect(headers["Content-Type"].startswith(KSERVE), headers["Content-Type"])
        rows.check_binary(reply[int(headers["Content-Type"].removeprefix(KSERVE)) :])
    return f"{rows.shape[0]} rows, to 1e-4"


@fact("a single model.onnx in the folder is served as 'model'")
def single_file(proof):
    with served(proof, "flat") as container:
        wait_healthy(container)
        return line_with(container.log(), "model is ready").split("model=")[1].split()[0]


@fact("models of texts find the locale en_US.UTF-8")
def locale(proof):
    with served(proof, "texts") as container:
        wait_healthy(container)
        code, _, reply = ask(container.address(), 8080, "/invocations", b"Good FOOD\n", {"Content-Type": "text/csv"})
        expect((code, reply.strip()) == (200, b"good"), f"{code} {reply[:200]}")
        return "a label"


@fact("SIGTERM under load: every request that was sent is answered with 200, exit code 0")
def stop_under_load(proof):
    rows = example()
    with served(proof) as container:
        wait_healthy(container)
        load = Load(container.address(), 8080, rows.csv(), {"Content-Type": "text/csv"}, clients=32)
        time.sleep(1)
        before = sum(load.answered)
        code, seconds = container.stop()
        answered, failures = load.finish()
        expect(before > 0 and answered > before, f"{before} answered before SIGTERM, {answered} in all")
        expect(not failures, f"{len(failures)} of {answered} failed: {failures[:3]}")
        expect(code == 0, f"exit code {code}")
        return f"{answered} requests of 32 clients, {answered - before} after SIGTERM; ended in {seconds:.1f} s"


@fact("SIGTERM while a model loads ends the start, exit code 0")
def stop_at_start(proof):
    with served(proof, "slow") as container:
        line_with_wait(container, "listening")
        code, seconds = container.stop()
        expect(code == 0, f"exit code {code}: {container.log().splitlines()[-1:]}")
        return f"ended in {seconds:.1f} s"


def line_with_wait(container, text, seconds=20):
    """The first log line with that text, once it is there."""
    until = time.monotonic() + seconds
    while text not in container.log() and time.monotonic() < until:
        time.sleep(0.02)
    return line_with(container.log(), text)


@fact("--cpus and --memory are seen: first log line, threads, bodies")
def limits(proof):
    found = []
    for cpus, threads in (("1", 1), ("1.5", 2)):
        with served(proof, options=["--cpus", cpus, "--memory", "512m"]) as container:
            wait_healthy(container)
            line = line_with(container.log(), "muster is starting")
            # Where the machine has no more processors anyway, the quota is not the reason.
            quota = [f"cgroup quota {cpus}"] if threads < os.cpu_count() else []
            for part in [f"cpus={threads}", "memory_limit=\"512 MiB", *quota]:
                expect(part in line, f"'{part}' is not in: {line}")
            counted = io_threads(container)
            expect(counted in (None, threads), f"--cpus {cpus}: {counted} I/O threads")
            # Larger than a quarter of the memory: refused, where taking it would end the process.
            code, reply = announce(container.address(), 8080, "/invocations", 200 << 20)
            expect(code == 413, f"a body of 200 MiB: {code} {reply[:200]}")
            resident = settled_memory(container)
            expect(not container.inspect()["State"]["OOMKilled"], "killed for memory")
            counted = "not seen from here" if counted is None else counted
            found.append(f"--cpus {cpus}: {counted} I/O threads, {resident / 2**20:.0f} MiB resident")
    return "; ".join(found)


def io_threads(container):
    """Threads that talk to clients; None where the engine's processes are not to be seen from here."""
    tasks = Path(f"/proc/{container.inspect()['State']['Pid']}/task")
    try:
        names = [(it / "comm").read_text().strip() for it in tasks.iterdir()]
    except OSError:
        return None
    return sum(it.startswith("http-") for it in names) if "muster" in names else None


def settled_memory(container):
    """Resident bytes, from the first sample that was taken after models were loaded."""
    until = time.monotonic() + 10
    while (resident := gauge(container, "process_resident_memory_bytes")) < 16 << 20:
        expect(time.monotonic() < until, f"{resident:.0f} bytes resident: no sample with a model")
        time.sleep(0.1)
    expect(resident < 512 << 20, f"{resident:.0f} bytes resident")
    return resident


def gauge(container, name):
    """The value of a metric without labels, from the SageMaker port."""
    text = ask(container.address(), 8080, "/metrics")[2].decode()
    line = next((it for it in text.splitlines() if it.startswith(name + " ")), None)
    expect(line, f"/metrics has no {name}")
    return float(line.split()[1])


@fact("any user, read-only, without capabilities, /tmp and home: serves, stops, writes nothing")
def hardened(proof):
    rows = example()
    with served(proof, options=HARDENED) as container:
        wait_healthy(container)
        code, _, reply = ask(container.address(), 8080, "/invocations", rows.csv(), {"Content-Type": "text/csv"})
        expect(code == 200, f"{code} {reply[:200]}")
        rows.check_csv(reply)
        code, text = container.execute("/muster", "health")
        expect(code == 0, f"muster health: {text}")
        warnings = [it for it in container.log().splitlines() if " WARN" in it or " ERROR" in it]
        expect(not warnings, f"it complains: {warnings[:2]}")
        code, _ = container.stop()
        expect(code == 0, f"exit code {code}")
    # With a root file system that can be written to, as root: still nothing is.
    with served(proof) as container:
        wait_healthy(container)
        places = ("/opt/ml", "/opt/ml/model")  # Where the engine mounts.
        changed = [it for it in docker("diff", container.name).stdout.splitlines() if it.split()[-1] not in places]
        changed = [it for it in changed if it not in ("C /opt",)]
        expect(not changed, f"changed: {changed}")
    return " ".join(HARDENED)


@fact("HEALTHCHECK of the image becomes healthy; muster health finds the port that was chosen")
def health_check(proof):
    began = time.monotonic()
    with served(proof) as container:
        while (state := container.inspect()["State"]["Health"]["Status"]) != "healthy":
            expect(time.monotonic() - began < 40, f"still '{state}' after 40 s")
            time.sleep(0.2)
        took = time.monotonic() - began
    for options, args in (
        (["-e", "SAGEMAKER_BIND_TO_PORT=9001"], ["serve"]),
        ([], ["serve", "--sagemaker-port=9002"]),
        (["-e", "MUSTER_HTTP_PORT=9003"], ["--allow-sagemaker=false"]),
        (["--init"], ["serve", "--sagemaker-port=9004"]),
    ):
        with served(proof, options=options, args=args) as container:
            line_with_wait(container, "ready to serve")
            code, text = container.execute("/muster", "health")
            expect(code == 0, f"{options} {args}: {text}")
    with served(proof, "slow") as container:
        line_with_wait(container, "listening")
        code, text = container.execute("/muster", "health")
        expect(code == 1 and "503" in text and len(text.splitlines()) == 1, f"while it loads: {code} {text}")
    return f"healthy after {took:.0f} s; the first check is made after 5 s"


@fact("SAGEMAKER_BIND_TO_PORT: that port, and no other")
def bound_port(proof):
    with served(proof, options=["-e", "SAGEMAKER_BIND_TO_PORT=9001"]) as container:
        wait_healthy(container, port=9001)
        others = {port: status(container.address(), port, "/ping") for port in (8000, 8002, 8080)}
        others[8001] = speaks_http2(container.address(), 8001)
        expect(not any(others.values()), f"other ports answer: {others}")
    return "9001"


@fact("without `serve`: four ports, for KServe v2, gRPC, metrics and SageMaker")
def plain_start(proof):
    with served(proof, args=()) as container:
        wait_healthy(container)
        for port, path in ((8000, "/v2/health/ready"), (8002, "/metrics")):
            expect(status(container.address(), port, path) == 200, f"port {port}: no 200 for {path}")
        expect(speaks_http2(container.address(), 8001), "port 8001: no HTTP/2, and so no gRPC")
    return "8000, 8001, 8002, 8080"


@fact("a broken model beside a good one: /ping 200, not ready as a whole, the broken one 503 by name")
def broken_beside_good(proof):
    with served(proof, "mixed", args=()) as container:
        wait_healthy(container)
        line_with_wait(container, "ready to serve")
        found = [
            status(container.address(), 8000, path)
            for path in ("/v2/health/live", "/v2/health/ready", "/v2/models/mlp/ready", "/v2/models/corrupt/ready")
        ]
        expect(found == [200, 400, 200, 503], f"live, ready, good, broken: {found}")
    return "live 200, ready 400, good 200, broken 503"


@fact("junk beside the model (archive, hidden files, lost+found, a dangling link) is passed over")
def junk(proof):
    with served(proof, "junk") as container:
        wait_healthy(container)
        line = line_with_wait(container, "ready to serve")
        expect("models=1 known=1" in line, line)
        warnings = [it for it in container.log().splitlines() if " WARN" in it or " ERROR" in it]
        return f"1 model, {len(warnings)} warnings"


@fact("no model, an empty folder, only a broken one: exit code 1, `train`: 2, and a last line that helps")
def failing_starts(proof):
    for folder, args, parts in (
        (None, ["serve"], ["/opt/ml/model", "docker run -v"]),
        ("empty", ["serve"], ["no models found in /opt/ml/model", "<name>/<version>/model.onnx", "mounted"]),
        ("broken", ["serve"], ["no model is served", "model 'corrupt'"]),
        (None, ["train"], ["'train'", "does not train"]),
    ):
        code, log = ended(proof.image, args, proof.models.mount(folder) if folder else [])
        last = log.strip().splitlines()[-1]
        expect(code == (2 if args == ["train"] else 1), f"{args[0]}, {folder}: exit code {code}")
        for part in parts:
            expect(part in last, f"{args[0]}, {folder}: no '{part}' in: {last}")
    return "4 starts"
