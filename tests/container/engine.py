"""Containers by the command `docker`: started, looked at, stopped, and removed in any case."""

import json
import subprocess
import time
import uuid
import zlib

# Seconds for a command that only asks or starts something.
PATIENCE = 60


class Failed(AssertionError):
    """A fact that does not hold; the text is for the reader of the table."""


def docker(*args, check=True, timeout=PATIENCE, text=True):
    """Runs `docker ARGS` and gives the finished process."""
    done = subprocess.run(["docker", *args], capture_output=True, text=text, timeout=timeout)
    if check and done.returncode != 0:
        raise Failed(f"docker {args[0]}: {done.stderr.strip().splitlines()[-1:] or done.returncode}")
    return done


def compressed(*args):
    """Bytes that `docker ARGS` writes, as they are and compressed as registries do."""
    plain = packed = 0
    packer = zlib.compressobj(6)
    with subprocess.Popen(["docker", *args], stdout=subprocess.PIPE) as process:
        while block := process.stdout.read(1 << 20):
            plain += len(block)
            packed += len(packer.compress(block))
    if process.returncode != 0:
        raise Failed(f"docker {args[0]} failed with exit status {process.returncode}")
    return plain, packed + len(packer.flush())


class Container:
    """A container that was started in the background; a context, at whose end it is removed."""

    def __init__(self, image, args=(), options=(), network="bridge"):
        self.name = f"muster-proof-{uuid.uuid4().hex[:8]}"
        self.host_network = network == "host"
        self.asked = time.monotonic()
        docker("run", "-d", "--name", self.name, "--network", network, *options, image, *args)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        docker("rm", "-f", "-v", self.name, check=False)

    def inspect(self):
        """What the engine knows of it."""
        return json.loads(docker("inspect", self.name).stdout)[0]

    def address(self):
        """The address at which its ports are reached from here, without the engine's proxy in between."""
        if self.host_network:
            return "127.0.0.1"
        networks = self.inspect()["NetworkSettings"]["Networks"].values()
        address = next((it["IPAddress"] for it in networks), "")
        if not address:
            raise Failed(f"it has ended, or has no network: {self.log().strip().splitlines()[-1:]}")
        return address

    def log(self):
        """Everything that it has written, standard output first."""
        done = docker("logs", self.name)
        return done.stdout + done.stderr

    def wait(self, seconds=30):
        """Its exit code, once it has ended."""
        try:
            return int(docker("wait", self.name, timeout=seconds).stdout)
        except subprocess.TimeoutExpired:
            raise Failed(f"it had not ended after {seconds} s") from None

    def stop(self):
        """Ends it as a platform does: SIGTERM, and SIGKILL 30 s later. Exit code and seconds."""
        began = time.monotonic()
        docker("stop", "-t", "30", self.name, timeout=40)
        return self.inspect()["State"]["ExitCode"], time.monotonic() - began

    def execute(self, *args):
        """Runs a command inside: exit code and what it wrote."""
        done = docker("exec", self.name, *args, check=False)
        return done.returncode, (done.stdout + done.stderr).strip()


def ended(image, args=(), options=()):
    """Exit code and output of a container that is expected to end by itself."""
    with Container(image, args, options, network="none") as container:
        return container.wait(), container.log()
