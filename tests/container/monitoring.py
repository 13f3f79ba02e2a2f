"""Prometheus, as Debian packages it, scrapes a container and is asked what it has seen."""

import json
import subprocess
import time
import urllib.parse

from engine import Container, Failed
from facts import KSERVE, example, expect, fact, served
from wire import Load, ask, wait_healthy

IMAGE = "muster-proof:prometheus"
DOCKERFILE = """
FROM debian:bookworm-slim
RUN apt-get update && apt-get install -y --no-install-recommends prometheus && rm -rf /var/lib/apt/lists/*
ENTRYPOINT ["prometheus", "--config.file=/etc/scrape/prometheus.yml", "--storage.tsdb.path=/data"]
"""
# What an operator looks at first; each must give a number above zero.
QUERIES = {
    "requests/s": 'rate(nv_inference_request_success{model="mlp"}[10s])',
    "rows/s": 'rate(nv_inference_count{model="mlp"}[10s])',
    "HTTP 200/s": 'sum(rate(muster_http_requests_total{protocol="sagemaker",status="200"}[10s]))',
    "p99 of a request, s": "histogram_quantile(0.99, sum by (le) (rate(muster_request_duration_seconds_bucket[10s])))",
    "p50 of computing, s": "histogram_quantile(0.5, sum by (le) (rate(muster_compute_duration_seconds_bucket[10s])))",
    "rows of a batch, p90": "histogram_quantile(0.9, sum by (le) (rate(muster_batch_rows_bucket[10s])))",
    "resident bytes": "process_resident_memory_bytes",
    "processors": "rate(process_cpu_seconds_total[10s])",
}


@fact("Prometheus scrapes the SageMaker port; rates, quantiles and memory can be asked for")
def prometheus(proof):
    command = ["docker", "build", *proof.build_options, "-q", "-t", IMAGE, "-"]
    done = subprocess.run(command, input=DOCKERFILE, capture_output=True, text=True)
    if done.returncode != 0:
        raise Failed(f"an image with Prometheus could not be built: {done.stderr.strip().splitlines()[-1:]}")
    rows = example()
    with served(proof) as container:
        wait_healthy(container)
        folder = proof.folder / "scrape"
        folder.mkdir(exist_ok=True)
        (folder / "prometheus.yml").write_text(
            "scrape_configs:\n- job_name: muster\n  scrape_interval: 1s\n  static_configs:\n"
            f"  - targets: ['{container.address()}:8080']\n"
        )
        mount = ["-v", f"{folder}:/etc/scrape:ro", "--tmpfs", "/data"]
        with Container(IMAGE, (), mount, proof.network) as watcher:
            body, head = rows.kserve_binary()
            load = Load(container.address(), 8080, body, {"Content-Type": KSERVE + str(head)}, clients=4)
            try:
                found = answers(watcher.address())
            finally:
                _, failures = load.stop()
    expect(not failures, f"requests failed: {failures[:3]}")
    return "; ".join(f"{name} {value:.3g}" for name, value in found.items())


def answers(address, seconds=40):
    """The value of each query, once all of them have one above zero."""
    until, found = time.monotonic() + seconds, {}
    while time.monotonic() < until and len(found) < len(QUERIES):
        time.sleep(0.5)
        for name, query in QUERIES.items():
            value = evaluate(address, query)
            if value is not None and value > 0:
                found[name] = value
    missing = [it for it in QUERIES if it not in found]
    expect(not missing, f"no data within {seconds} s for: {', '.join(missing)}")
    return found


def evaluate(address, query):
    """The first value of an instant query; None where there is none, or nobody to ask yet."""
    path = "/api/v1/query?" + urllib.parse.urlencode({"query": query})
    try:
        code, _, body = ask(address, 9090, path)
    except OSError:
        return None
    result = json.loads(body)["data"]["result"] if code == 200 else []
    return float(result[0]["value"][1]) if result else None
