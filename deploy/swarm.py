#!/usr/bin/env python3
"""Three copies of muster in Docker's swarm mode, changed, killed and drained under load; counts the requests that fail.

Needs an engine of Docker whose containers may have engines of their own, Debian's packages, and a `muster`. A node is a
container with an engine of its own: one manager, which has the balancer, and two workers. `swarm/stack.yaml` is
deployed there. While `muster bench` sends requests at a fixed rate:

  - nothing happens;
  - another image is rolled out, then another version of the model;
  - the process of a copy is killed;
  - a node is drained.

  deploy/swarm.py                          the image is made of target/release/muster and its ONNX Runtime
  deploy/swarm.py --image muster           an image that the engine has
  deploy/swarm.py --rate 500 --seconds 60  requests a second, and how long each row lasts
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SWARM = ROOT / "deploy/swarm"
MODEL = ROOT / "tests/fixtures/models/mlp/1/model.onnx"
NAME = "muster-swarm"
NODES = [f"{NAME}-{it}" for it in ("manager", "worker-1", "worker-2")]
MANAGER = NODES[0]
IMAGES = {1: f"{NAME}:1", 2: f"{NAME}:2"}
COPIES = 3
# What an engine in a container may do; fewer rights than with --privileged, which some machines cannot give.
RIGHTS = ["--cap-add=SYS_ADMIN", "--cap-add=NET_ADMIN", "--cap-add=SYS_PTRACE", "--cap-add=DAC_READ_SEARCH"]
RIGHTS += [f"--security-opt={it}=unconfined" for it in ("seccomp", "apparmor", "systempaths")]
RIGHTS += ["--cgroupns=host", "--volume=/sys/fs/cgroup:/sys/fs/cgroup"]
# Seconds within which a change must be done.
PATIENCE = 180


def main():
    """Makes the swarm, then a table as Markdown: a row for each thing that happens."""
    options = arguments()
    found = subprocess.run(["docker", "info"], capture_output=True, text=True) if shutil.which("docker") else None
    if found is None or found.returncode != 0:
        print(f"SKIPPED: {found.stderr.strip() if found else 'there is no program docker'}")
        sys.exit(1 if os.environ.get("CI") == "true" else 0)
    remove()
    try:
        images(options)
        join()
        deploy(image=1, version=1)
        address = f"http://{address_of(MANAGER)}:8000"
        until(lambda: versions(address) == ["1"], "the first answer")
        failed = rows(options, address)
    finally:
        if not options.keep:
            remove()
    sys.exit(1 if failed else 0)


def arguments():
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--muster", type=Path, default=ROOT / "target/release/muster")
    parser.add_argument("--onnxruntime", type=Path, help="the library for the image; by default that of the build")
    parser.add_argument("--image", help="an image of muster instead of one that is made of the program")
    parser.add_argument("--rate", type=int, default=500, help="requests a second")
    parser.add_argument("--seconds", type=int, default=60, help="of each row; what happens must be done by then")
    parser.add_argument("--keep", action="store_true", help="leave the nodes")
    return parser.parse_args()


def rows(options, address):
    """Prints the table; the number of requests that failed."""
    print("| while | done after, s | requests | failed | p50 ms | p99 ms | longest ms |")
    print("|---|--:|--:|--:|--:|--:|--:|", flush=True)
    failed = 0
    for what, happens in (
        ("nothing happens", lambda: None),
        ("another image is rolled out", lambda: deploy(image=2, version=1)),
        ("another version of the model is rolled out", lambda: deploy(image=2, version=2)),
        ("a copy is killed", kill),
        ("a node is drained", drain),
    ):
        load = bench(options, address)
        time.sleep(5)
        began = time.monotonic()
        happens()
        took = time.monotonic() - began
        if load.poll() is not None:
            sys.exit(f"{what}: it took {took:.0f} s, longer than the load: expected more --seconds")
        output, errors = load.communicate()
        if not output:
            sys.exit(f"muster bench failed: {errors.strip()}")
        found = json.loads(output)
        lost = found["requests"] - found["ok"] + found["unsent"]
        failed += lost
        latency = [f"{found['latency'][it] / 1000:.1f}" for it in ("p50_us", "p99_us", "max_us")]
        print("| " + " | ".join([what, f"{took:.0f}", str(found["requests"]), str(lost), *latency]) + " |", flush=True)
        if lost or found["wrong"]:
            print({it: found[it] for it in ("statuses", "failures", "unsent", "first_bad", "wrong")}, file=sys.stderr)
    if versions(address) != ["2"]:
        sys.exit(f"expected version 2 of the model, given {versions(address)}")
    return failed


def bench(options, address):
    """The load, in the background. Answers are compared, too: both versions of the model have the same weights."""
    command = [options.muster, "bench", address, "--model", "mlp", "--rate", str(options.rate), "--connections", "64"]
    command += ["--duration", str(options.seconds), "--warm-up", "1", "--timeout", "10", "--json"]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def images(options):
    """What the nodes run. The second image of muster differs from the first by a label."""
    for target in ("node", "balancer"):
        docker("build", "-q", "--network", "host", "--target", target, "-t", f"{NAME}-{target}", str(SWARM))
    with tempfile.TemporaryDirectory() as folder:
        source = f"FROM {options.image}\n"
        if options.image is None:
            source = "FROM debian:bookworm-slim\nCOPY muster library/ /opt/muster/\n"
            source += "RUN ln -s /opt/muster/muster /muster\n"
            source += 'ENV MUSTER_HTTP_ADDRESS=0.0.0.0\nENTRYPOINT ["/muster"]\n'
            shutil.copy(options.muster, f"{folder}/muster")
            built = sorted(ROOT.glob("target/onnxruntime-*/libonnxruntime.so.*"))
            library = options.onnxruntime or next(iter(built), None)
            if library is None:
                sys.exit("target/ has no libonnxruntime.so: build muster, or say --onnxruntime or --image")
            Path(f"{folder}/library").mkdir()
            shutil.copy(library, f"{folder}/library")
        Path(f"{folder}/Dockerfile").write_text(source)
        for number, tag in IMAGES.items():
            docker("build", "-q", "--label", f"number={number}", "-t", tag, folder)


def join():
    """Starts the nodes, gives them the images, and joins them to a swarm."""
    docker("network", "create", NAME)
    for node in NODES:
        docker("run", "-d", *RIGHTS, "--network", NAME, "--name", node, "--hostname", node, f"{NAME}-node")
    with ThreadPoolExecutor() as threads:
        list(threads.map(give_images, NODES))
    inside(MANAGER, "swarm", "init", "--advertise-addr", address_of(MANAGER))
    token = inside(MANAGER, "swarm", "join-token", "-q", "worker").stdout.strip()
    for node in NODES[1:]:
        inside(node, "swarm", "join", "--token", token, f"{address_of(MANAGER)}:2377")
    docker("cp", str(SWARM), f"{MANAGER}:/swarm")
    docker("cp", str(MODEL), f"{MANAGER}:/swarm/model.onnx")


def give_images(node):
    """Copies the images to a node, as there is no registry."""
    until(lambda: inside(node, "info", check=False).returncode == 0, f"the engine of {node}")
    wanted = [*IMAGES.values()] + ([f"{NAME}-balancer"] if node == MANAGER else [])
    with subprocess.Popen(["docker", "save", *wanted], stdout=subprocess.PIPE) as saved:
        load = ["docker", "exec", "-i", node, "docker", "load", "-q"]
        subprocess.run(load, stdin=saved.stdout, stdout=subprocess.DEVNULL, check=True)


def deploy(image, version):
    """Deploys the stack, and waits until every copy is of that image and that version."""
    settings = {"IMAGE": IMAGES[image], "VERSION": version, "MODEL": "model.onnx", "BALANCER_IMAGE": f"{NAME}-balancer"}
    settings = [it for name, value in settings.items() for it in ("-e", f"{name}={value}")]
    stack = ["docker", "stack", "deploy", "--resolve-image", "never", "-c", "/swarm/stack.yaml", "muster"]
    docker("exec", *settings, MANAGER, *stack)

    def done():
        found = json.loads(inside(MANAGER, "service", "inspect", "muster_muster").stdout)[0]
        state = found.get("UpdateStatus", {}).get("State", "completed")
        if state.startswith(("rollback", "paused")):
            sys.exit(f"the rollout ended: {state}: {found['UpdateStatus']['Message']}")
        return state == "completed" and [it["Image"] for it in copies()] == [IMAGES[image]] * COPIES

    until(done, "the rollout")


def copies():
    """The copies that run: each with its node, its name and its image."""
    form = '{"Name":"{{.Name}}","Node":"{{.Node}}","Image":"{{.Image}}","State":"{{.CurrentState}}","Id":"{{.ID}}"}'
    listed = inside(MANAGER, "service", "ps", "--no-trunc", "--format", form, "muster_muster").stdout
    found = [json.loads(it) for it in listed.splitlines()]
    return [it for it in found if it["State"].startswith("Running")]


def kill():
    """Kills a copy's process on a worker, and waits until there are three again."""
    victim = next(it for it in copies() if it["Node"] != MANAGER)
    inside(victim["Node"], "kill", "--signal", "KILL", f"{victim['Name']}.{victim['Id']}")
    until(lambda: len(copies()) == COPIES and victim not in copies(), "a copy in place of the killed one")


def drain():
    """Drains a worker that has a copy, and waits until the others have all of them."""
    node = next(it["Node"] for it in copies() if it["Node"] != MANAGER)
    inside(MANAGER, "node", "update", "--availability", "drain", node)
    until(lambda: len(copies()) == COPIES and all(it["Node"] != node for it in copies()), "copies on other nodes")


def versions(address):
    """The versions of the model that a copy serves; nothing if none answers."""
    try:
        with urllib.request.urlopen(f"{address}/v2/models/mlp", timeout=5) as reply:
            return json.load(reply)["versions"]
    except OSError:
        return None


def until(holds, what):
    """Waits for something that another process does."""
    began = time.monotonic()
    while not holds():
        if time.monotonic() - began > PATIENCE:
            sys.exit(f"{what}: not within {PATIENCE} s")
        time.sleep(0.5)


def docker(*args, check=True):
    """Runs `docker ARGS` and gives the finished process."""
    done = subprocess.run(["docker", *args], capture_output=True, text=True)
    if check and done.returncode != 0:
        sys.exit(f"docker {' '.join(args)}: {done.stderr.strip() or done.stdout.strip()}")
    return done


def inside(node, *args, check=True):
    """Runs `docker ARGS` on a node."""
    return docker("exec", node, "docker", *args, check=check)


def address_of(node):
    """Its address in the network of the nodes."""
    networks = json.loads(docker("inspect", node).stdout)[0]["NetworkSettings"]["Networks"]
    return networks[NAME]["IPAddress"]


def remove():
    """Ends the nodes, if there are any. Images stay."""
    docker("rm", "-f", "-v", *NODES, check=False)
    docker("network", "rm", NAME, check=False)


if __name__ == "__main__":
    main()
