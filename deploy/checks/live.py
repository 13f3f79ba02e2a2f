"""The manifests with a real muster, and the queries with a real Prometheus that scrapes it under a little load."""

import math
import shutil
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor

from .consistency import Help
from .promql import Page
from .queries import OF_OTHERS, OF_THE_SCRAPE, queries
from .server import Muster, Prometheus, get, wait

# Requests per second to each model: enough for every series to move.
RATE = 40
# Alerts that a machine which is slow just now may bring about.
OF_LOAD = ("MusterQueueing", "MusterRefusing")
# Rates are taken over this window, in which there are so many scrapes.
WINDOW, SCRAPES = "5s", 6


def check(manifests, report, muster, work):
    """Each way to start muster; then everything that Prometheus is asked for."""
    if not muster.is_file():
        report.skipped("probes and queries", f"there is no {muster}; cargo build --release makes it")
        return
    folder = work / "live"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    models = manifests.folder.parent / "model_repository"
    of_compose, *others = manifests.containers()
    # They take their time to stop, which is waited for side by side.
    with ThreadPoolExecutor() as pool:
        begun = [
            pool.submit(probes, it, muster, models, folder / f"{index}.log", report) for index, it in enumerate(others)
        ]
        begun.append(pool.submit(layouts, manifests, muster, models, folder, report))
    for it in begun:
        it.result()
    under_load(manifests, of_compose, muster, models, folder, report)


def probes(container, muster, models, log, report):
    """It starts with these arguments; its probes say yes; SIGTERM makes it not ready, and it ends in time."""
    before, known = report.count(), Help(muster)
    server = Muster(muster, container, models, log)
    try:
        asked = container.probes()
        path, port = asked["readinessProbe"]
        if not server.wait_ready(port, path):
            report.problem(container.file, f"muster did not get ready on {path}: {log.read_text()[-500:]}")
            return
        for name, (path, port) in asked.items():
            if server.status(port, path) != 200:
                report.problem(container.file, f"{name}: {path} on a ready server is {server.status(port, path)}")
        if server.listening() != sorted(server.ports.values()):
            report.problem(container.file, f"opens {server.listening()}, expected {sorted(server.ports.values())}")
        server.terminate()
        path, port = asked["readinessProbe"]
        if not wait(lambda: server.status(port, path) != 200) or server.status(port, path) != 503:
            report.problem(container.file, f"{path} is not 503 after SIGTERM")
        limit = int(container.flag("exit-timeout-secs") or known.defaults["exit-timeout-secs"])
        code = server.end(limit)
        if code != 0:
            report.problem(container.file, f"exit code {code} after SIGTERM, within {limit} s")
    finally:
        server.end(0)
    if report.count() == before:
        report.ok(f"{container.file}: started, probed and stopped")


def layouts(manifests, muster, models, folder, report):
    """What KServe leaves in /mnt/models, by inference-service.yaml, is served under the InferenceService's name."""
    (runtime,) = [it for it in manifests.containers() if it.file.startswith("kserve/")]
    path, port = runtime.probes()["readinessProbe"]
    for file, service in manifests.kind("InferenceService"):
        name = service["metadata"]["name"]
        predictor, mount = service["spec"]["predictor"], folder / f"mnt-{name}"
        if not (models / name).is_dir():
            report.problem(file, f"{name} is none of the sample models")
            continue
        address = predictor["model"]["storageUri"]
        if address.endswith(".onnx"):
            mount.mkdir(parents=True)
            shutil.copy(models / name / "1/model.onnx", mount / address.rsplit("/", 1)[1])
        else:
            # What is below the address.
            shutil.copytree(models / name, mount / name)
        server = Muster(muster, runtime, mount, folder / f"{name}.log", name)
        try:
            ready = server.wait_ready(port, path)
            if ready and server.status(port, f"/v2/models/{name}/ready") == 200:
                report.ok(f"{file}: {name} answers under its name")
            else:
                report.problem(file, f"{name} is not served as that: {server.log.read_text()[-500:]}")
        finally:
            server.process.kill()
            server.end(1)


def under_load(manifests, container, muster, models, folder, report):
    """muster as compose starts it: its metrics, the answers of Prometheus, the healthcheck, and an alert."""
    server = Muster(muster, container, models, folder / "compose.log")
    prometheus = None
    try:
        if not server.wait_ready(8000, "/v2/health/ready"):
            report.problem(container.file, f"muster did not get ready: {server.log.read_text()[-500:]}")
            return
        healthcheck(container, server, report, expected=0)
        if not shutil.which("prometheus"):
            report.skipped("queries in Prometheus", "there is no prometheus (Debian: prometheus)")
            names(manifests, server, report)
            return
        prometheus = Prometheus(manifests, server.address(8002), folder / "prometheus")
        load = [
            subprocess.Popen(
                [muster, "bench", f"http://{server.address(8000)}", "--model", it, "--rate", str(RATE)]
                + ["--connections", "4", "--duration", "600", "--warm-up", "0"],
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )
            for it in sorted(it.name for it in models.iterdir() if (it / "1").is_dir())
            # Samples in Python are left out where there is no Python with numpy.
            if server.status(8000, f"/v2/models/{it}/ready") == 200
        ]
        try:
            if not wait(lambda: prometheus.scrapes() >= SCRAPES):
                report.problem("Prometheus", f"scraped nothing: {prometheus.log.read_text()[-500:]}")
                return
            ended = [it.returncode for it in load if it.poll() is not None]
            if ended:
                report.problem("muster bench", f"ended with {ended}; it needs the program muster-bench beside muster")
                return
            names(manifests, server, report)
            answers(manifests, prometheus, report)
        finally:
            for it in load:
                it.kill()
                it.wait()
        stopped(container, server, prometheus, report)
    finally:
        server.end(0)
        if prometheus:
            prometheus.end()


def names(manifests, server, report):
    """Whatever a query names is in the text of /metrics."""
    _, text = get(f"http://{server.address(8002)}/metrics")
    page, before, count = Page(text), report.count(), 0
    for it in queries(manifests):
        count += 1
        for problem in page.problems(it.filled(WINDOW), OF_OTHERS):
            report.problem(it.where, problem)
    for group in manifests.rules["groups"]:
        for rule in group["rules"]:
            for problem in templates(rule, page):
                report.problem(f"prometheus/rules.yml: {rule['alert']}", problem)
    if report.count() == before:
        report.ok(f"{count} queries name {len(page.values)} series of /metrics, and nothing that is not there")


def templates(rule, page):
    """Labels in the texts of an alert that neither the server nor the scrape has."""
    labels = set(OF_THE_SCRAPE).union(*page.values.values())
    for text in rule["annotations"].values():
        for it in text.split("$labels.")[1:]:
            name = it.split(" ")[0].rstrip("}")
            if name not in labels:
                yield f"there is no label {name}"


def answers(manifests, prometheus, report):
    """Every query is valid, and what a dashboard or an autoscaler shows has a value."""
    before, count = report.count(), 0
    for it in queries(manifests):
        count += 1
        expression = it.filled(WINDOW)

        def has_value(expression=expression):
            values, error = prometheus.query(expression)
            return error or any(math.isfinite(value) for value in values)

        # On a machine that is slow just now, some scrapes of the window may have failed.
        fine = wait(has_value, seconds=5) if it.shown else True
        values, error = prometheus.query(expression)
        if error:
            report.problem(it.where, error)
        elif not fine:
            report.problem(it.where, f"no value in Prometheus under load, {values or 'nothing'}: {expression}")
    states = prometheus.alert_states()
    for name, state in states.items():
        if state != "inactive" and name not in OF_LOAD:
            report.problem(f"prometheus/rules.yml: {name}", f"{state} on a healthy server")
    if report.count() == before:
        report.ok(f"{count} queries have values in Prometheus; {len(states)} alerts are quiet")


def stopped(container, server, prometheus, report):
    """After SIGTERM it ends in its time; the healthcheck and Prometheus notice."""
    before = report.count()
    server.terminate()
    if server.end(30) != 0:
        report.problem(container.file, "muster did not end with exit code 0 after SIGTERM")
    healthcheck(container, server, report, expected=1)
    began = time.monotonic()
    if not wait(lambda: prometheus.alert_states().get("MusterDown") == "pending"):
        report.problem("prometheus/rules.yml", "MusterDown is not pending after muster has ended")
    if report.count() == before:
        report.ok(f"{container.file}: MusterDown was pending {time.monotonic() - began:.1f} s after the end")


def healthcheck(container, server, report, expected):
    """The command of the healthcheck, on the port that the server has here."""
    _, _, *command = container.service["healthcheck"]["test"]
    if command[0] not in Help(server.program).commands:
        # consistency.py has said so.
        return
    url = f"http://{server.address(8000)}/v2/health/ready"
    code = subprocess.run([server.program, *command, f"--url={url}"], capture_output=True).returncode
    if code == expected:
        report.ok(f"{container.file}: healthcheck exits with {code}")
    else:
        report.problem(container.file, f"healthcheck exits with {code}, expected {expected}")
