#!/usr/bin/env python3
"""Serves the same model by muster and by its peers, and prints a table of what each request costs.

Needs Linux, Python 3.10 or later, a release build of muster, and once a package index.
"""

import argparse
import json
import os
import platform
import shutil
import signal
import sys
import time
from dataclasses import asdict
from pathlib import Path

from bench import Bench, failed
from cases import INFER, JSON, KSERVE_BINARY, KSERVE_JSON, ROOT, case
from compiled import CompiledTable
from images import ImageComparison
from peers import PEERS
from processes import Server, Unavailable, environment, finished, free_port, versions
from table import TOLERATED, Row, generator, markdown
from text_peers import TEXT_PEERS, TextEmbeddingsInference
from texts import TextComparison

# Seconds that a server may take to its first right answer.
START_LIMIT = 60
# Seconds of load on a new server that are not looked at.
SETTLING = 0.5
# What compares whole pipelines.
SETS = {"text": TextComparison, "image": ImageComparison}
# Connections of a set, where it has others than 1, 16 and 64: runs that take longer need fewer to fill the machine.
CONNECTIONS = {"text": [1, 16], "image": [1, 4]}
# Connections at which settings are tried.
TUNING_CONNECTIONS = 16


def main():
    """Parses, measures, prints."""
    options = arguments()
    if not options.muster.is_file():
        sys.exit(f"{options.muster}: no such program; cargo build --profile dist -p muster -p muster-bench -p muster-recommend makes it")
    # So that servers are ended on the way out.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("stopped"))
    began = time.monotonic()
    if options.set == "detector":
        table = CompiledTable(options, say)
        table.notes.append(f"{version(options.muster)}; {machine()}")
        print(table.measure(), end="")
        return
    if options.set in SETS:
        comparison = SETS[options.set](options, say)
        comparison.notes.append(version(options.muster))
        comparison.measure()
    else:
        comparison = Comparison(options)
        for model in options.models:
            comparison.measure(case(model))
    comparison.notes.append(generator(comparison.rows))
    comparison.notes.append(f"{time.monotonic() - began:.0f} s; {machine()}")
    text = markdown(comparison.rows, comparison.notes)
    (options.work / "report.md").write_text(text)
    report = {"rows": [asdict(row) for row in comparison.rows], "notes": comparison.notes}
    (options.work / "report.json").write_text(json.dumps(report, indent=1) + "\n")
    print(text, end="")


def arguments():
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add = parser.add_argument
    names = ", ".join(it.name for it in PEERS)
    text_names = "; ".join(it.name for it in TEXT_PEERS)
    add("peers", nargs="*", metavar="PEER", help=f"some of: {names}; with --set text of: {text_names}; tei")
    add("--set", choices=["tensors", *SETS, "detector"], default="tensors", help="what is served")
    add("--tei", type=Path, metavar="PROGRAM", help="text-embeddings-router, a further peer of the set text")
    add("--muster", type=Path, default=ROOT / "target/dist/muster", help="the release build")
    add("--work", type=Path, default=ROOT / "target/peers", help="folder of environments and logs")
    models = "mlp, identity, convnet, retrieval, transformer; settings are tuned for the first"
    add("--models", nargs="+", default=["mlp", "identity"], help=models)
    add("--connections", nargs="+", type=int, help="1 16 64; of texts 1 16, of images 1 4")
    add("--pairs", type=int, default=6, help="pairs of blocks of each comparison")
    add("--block", type=float, default=0.25, help="seconds of a block; a quarter more is warm-up")
    add("--quick", action="store_true", help="16 connections (of images 4), 2 pairs: a look, no measurement")
    options = parser.parse_args()
    every = PEERS
    if options.set == "text":
        every = [*TEXT_PEERS, *([TextEmbeddingsInference(options.tei.resolve())] if options.tei else [])]
    known = {it.name.lower(): it for it in every}
    unknown = [it for it in options.peers if it.lower() not in known]
    if unknown:
        parser.error(f"unknown peer '{unknown[0]}'; there are {'; '.join(known)}")
    options.all_peers = not options.peers
    options.peers = [known[it.lower()] for it in options.peers] or every
    usual = CONNECTIONS.get(options.set, [1, 16, 64])
    options.connections = options.connections or usual
    if options.quick:
        options.connections, options.pairs = [min(16, usual[-1])], 2
    options.muster, options.work = options.muster.resolve(), options.work.resolve()
    options.work.mkdir(parents=True, exist_ok=True)
    return options


class Comparison:
    """All rows so far, and what is known of the peers."""

    def __init__(self, options):
        self.options = options
        self.bench = Bench(options.muster, options.work, options.pairs, options.block)
        self.rows = []
        self.notes = [version(options.muster)]
        # By name: programs and best settings of a peer that works, or None.
        self.known = {}

    def measure(self, model):
        """Every peer on one model, in turns with muster."""
        with self.start_muster(model) as muster:
            own = [protocol.at_muster() for protocol in (JSON, KSERVE_JSON, KSERVE_BINARY)]
            start = muster.wait_until_right(lambda: own[0].problem(model, muster.port), START_LIMIT)
            for protocol in own:
                self.measure_muster(model, protocol, muster, start)
            for peer in self.options.peers:
                try:
                    self.measure_peer(model, peer, muster)
                except Unavailable as error:
                    self.complain(f"{peer.name}, {model.name}: {error}")

    def start_muster(self, model):
        """muster with its default settings: only ports and the repository are given."""
        repository = self.options.work / "models" / model.name
        version = repository / model.name / "1"
        version.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(model.file, version / "model.onnx")
        port = free_port()
        command = [self.options.muster, "serve", "--model-repository", repository]
        command += ["--http-address=127.0.0.1", f"--http-port={port}"]
        command += ["--grpc-port=0", "--sagemaker-port=0", "--metrics-port=0"]
        server = Server(command, self.options.work / "muster.log")
        server.port = port
        return server

    def measure_muster(self, model, protocol, muster, start):
        """muster by itself."""
        problem = protocol.problem(model, muster.port)
        if problem:
            sys.exit(f"muster, {model.name}, {protocol.name}: {problem}")
        found = []
        for connections in self.options.connections:
            url = address(protocol, muster.port, model)
            seconds = 4 * self.options.block
            report = self.bench.alone(model, protocol, connections, muster, url, seconds)
            found.append((connections, report))
        memory = muster.memory()
        for connections, report in found:
            self.rows.append(
                Row(model.name, "muster", "default", protocol.name, connections)
                .with_report(report)
                .with_process(memory, start)
            )

    def measure_peer(self, model, peer, muster):
        """One peer with its default and its best settings."""
        programs, best = self.prepare(model, peer)
        for label, settings in (("default", peer.default), (f"best: {best}", best)):
            say(f"{model.name}: {peer.name}, {label}")
            try:
                self.measure_settings(model, peer, programs, (label, settings), muster)
            except Unavailable as error:
                self.complain(f"{peer.name}, {label}, {model.name}: {error}")

    def measure_settings(self, model, peer, programs, labelled, muster):
        """One peer with these settings: a row for each protocol and number of connections."""
        label, settings = labelled
        with self.start_peer(model, peer, programs, settings) as server:
            start = self.ready(model, peer, server)
            rows = []
            for protocol in peer.protocols:
                for connections in self.options.connections:
                    row = Row(model.name, peer.name, label, protocol.name, connections)
                    self.compare(model, protocol, row, server, muster)
                    rows.append(row)
            memory = server.memory()
            self.rows += [row.with_process(memory, start) for row in rows]

    def complain(self, text):
        """A line below the table, said at once."""
        self.notes.append(text)
        say(text)

    def prepare(self, model, peer):
        """The programs and the best settings of a peer, found with the first model."""
        if peer.name not in self.known:
            self.known[peer.name] = None
            folder = self.options.work / "environments" / peer.folder.name
            programs = environment(folder, peer.folder / "requirements.txt", say)
            self.notes.append(versions(programs, (*peer.packages, "onnxruntime")))
            self.known[peer.name] = (programs, self.tune(model, peer, programs))
        if self.known[peer.name] is None:
            raise Unavailable("see above")
        return self.known[peer.name]

    def tune(self, model, peer, programs):
        """The settings with the highest throughput."""
        found = {}
        protocol = peer.protocols[-1]
        for settings in peer.grid:
            try:
                with self.start_peer(model, peer, programs, settings) as server:
                    self.ready(model, peer, server)
                    url = address(protocol, server.port, model)
                    report = self.bench.alone(model, protocol, TUNING_CONNECTIONS, server, url, 0.7)
            except Unavailable as error:
                self.complain(f"{peer.name}, {settings}: {error}")
                continue
            say(f"{peer.name}, {settings}: {report['throughput']:.0f} requests/s")
            if failed([report]) < TOLERATED:
                found[settings] = report["throughput"]
        if not found:
            raise Unavailable("no settings of the grid work")
        return max(found, key=found.get)

    def start_peer(self, model, peer, programs, settings):
        """Its process."""
        ports = [free_port() for _ in range(3)]
        variables = peer.environment(programs, model, settings, ports)
        command = peer.command(programs, settings, ports[0])
        log = self.options.work / f"{peer.folder.name}.log"
        server = Server(command, log, variables, self.options.work)
        server.port = ports[0]
        return server

    def ready(self, model, peer, server):
        """The time to the first right answer; the other protocols are checked after it."""
        first, *others = peer.protocols
        start = server.wait_until_right(lambda: first.problem(model, server.port), START_LIMIT)
        for protocol in others:
            problem = protocol.problem(model, server.port)
            if problem:
                raise Unavailable(f"{protocol.name}: {problem}")
        # The first process of several may have answered; others need a moment more.
        url = address(first, server.port, model)
        self.bench.alone(model, first, TUNING_CONNECTIONS, server, url, SETTLING)
        return start

    def compare(self, model, protocol, row, server, muster):
        """Fills in the numbers and ratios of a row."""
        found = self.bench.compare(
            model,
            protocol,
            row.connections,
            (address(protocol, server.port, model), server),
            (address(protocol.at_muster(), muster.port, model), muster),
        )
        row.with_comparison(found)


def address(protocol, port, model):
    """Where requests go: the KServe formats know their path themselves."""
    path = "" if protocol.path == INFER else protocol.path.format(model=model.name)
    return f"http://127.0.0.1:{port}{path}"


def version(muster):
    """The program's name and version."""
    return finished([muster, "--version"]).stdout.strip()


def machine():
    """What it ran on."""
    info = Path("/proc/cpuinfo").read_text().splitlines()
    name = next((it.partition(":")[2].strip() for it in info if it.startswith("model name")), "")
    load = " ".join(f"{it:.1f}" for it in os.getloadavg())
    python = platform.python_version()
    return f"{os.cpu_count()} processors {name}; Python {python}; load averages at the end {load}"


def say(text):
    """Tells how far it is."""
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
