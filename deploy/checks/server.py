"""Programs that a check starts: a muster with the arguments of a manifest, and a Prometheus that scrapes it."""

import json
import re
import shutil
import signal
import socket
import subprocess
import time
import urllib.error
import urllib.parse
import urllib.request

import yaml

# Seconds within which a program must be up, or a value be there.
PATIENCE = 30


class Muster:
    """A muster as a container would run it, with free ports, `models` where the container has its mount, and `name`
    where KServe writes that of the InferenceService."""

    def __init__(self, program, container, models, log, name="some-model"):
        self.ports = {it: free_port() for it in container.ports()}
        args = []
        for it in container.args:
            it = re.sub(r"(^|=)/(mnt/|srv/)?models$", rf"\g<1>{models}", it).replace("{{.Name}}", name)
            if found := re.fullmatch(r"(--[\w-]+-port)=(\d+)", it):
                it = f"{found[1]}={self.ports[int(found[2])]}"
            args.append(it)
        for name, port in (("http-port", 8000), ("grpc-port", 8001), ("metrics-port", 8002)):
            if port in self.ports and not container.flag(name):
                args.append(f"--{name}={self.ports[port]}")
        self.program, self.log = program, log
        self.process = subprocess.Popen([program, *args], stdout=log.open("w"), stderr=subprocess.STDOUT)

    def address(self, port):
        """Where that port of the container is now."""
        return f"127.0.0.1:{self.ports[port]}"

    def status(self, port, path):
        """The status of a GET, or nothing without an answer."""
        return get(f"http://{self.address(port)}{path}")[0]

    def wait_ready(self, port, path):
        """Until the path is answered with 200. False when the process has ended, or it takes too long."""
        return wait(lambda: self.process.poll() is not None or self.status(port, path) == 200) and self.alive()

    def alive(self):
        """Whether it runs."""
        return self.process.poll() is None

    def listening(self):
        """The ports that it says it has opened."""
        return sorted(map(int, re.findall(r'listening.*?:(\d+)"', self.log.read_text())))

    def terminate(self):
        """SIGTERM, as a platform sends it."""
        self.process.send_signal(signal.SIGTERM)

    def end(self, seconds):
        """The exit code, or nothing if it takes longer than this; then it is killed."""
        try:
            return self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            return None


class Prometheus:
    """A Prometheus with this folder's configuration and rules, which scrapes one muster each second."""

    def __init__(self, manifests, target, folder):
        config = manifests.one("prometheus/prometheus.yml") | {
            "global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
            "rule_files": [str(manifests.folder / "prometheus/rules.yml")],
            # The labels are those that the Prometheus operator gives to the series of a pod.
            "scrape_configs": [
                {
                    "job_name": "muster",
                    "static_configs": [{"targets": [target], "labels": {"namespace": "models", "pod": "muster-0"}}],
                }
            ],
        }
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        (folder / "prometheus.yml").write_text(yaml.safe_dump(config))
        self.base = f"http://127.0.0.1:{free_port()}"
        self.log = folder / "log"
        command = ["prometheus", f"--config.file={folder}/prometheus.yml", f"--storage.tsdb.path={folder}/data"]
        command += [f"--web.listen-address={self.base.removeprefix('http://')}", "--log.level=warn"]
        self.process = subprocess.Popen(command, stdout=self.log.open("w"), stderr=subprocess.STDOUT)

    def query(self, expression):
        """The numbers that an expression has now, and what was wrong with it."""
        status, body = get(f"{self.base}/api/v1/query?{urllib.parse.urlencode({'query': expression})}")
        if status not in (200, 400, 422):
            return [], f"Prometheus does not answer: {status}"
        answer = json.loads(body)
        if answer["status"] != "success":
            return [], answer["error"]
        return [float(it["value"][1]) for it in answer["data"]["result"]], None

    def scrapes(self):
        """How often muster was asked, with success."""
        values, _ = self.query('sum_over_time(up{job="muster"}[5m])')
        return values[0] if values else 0

    def alert_states(self):
        """The state of each rule, by its name: inactive, pending, firing."""
        status, body = get(f"{self.base}/api/v1/rules")
        groups = json.loads(body)["data"]["groups"] if status == 200 else []
        return {rule["name"]: rule["state"] for group in groups for rule in group["rules"]}

    def end(self):
        """Stops it."""
        self.process.terminate()
        self.process.wait()


def get(url):
    """Status and body; nothing where nobody answers."""
    try:
        with urllib.request.urlopen(url, timeout=5) as reply:
            return reply.status, reply.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()
    except (OSError, ValueError):
        return None, ""


def wait(holds, seconds=PATIENCE):
    """Whether it holds in time."""
    until = time.monotonic() + seconds
    while not (fine := holds()) and time.monotonic() < until:
        time.sleep(0.05)
    return fine


def free_port():
    """A port that was free a moment ago."""
    with socket.socket() as it:
        it.bind(("127.0.0.1", 0))
        return it.getsockname()[1]
