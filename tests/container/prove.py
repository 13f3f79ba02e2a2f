#!/usr/bin/env python3
"""Proves what docs/reference/container.md says of the image, in a real Docker engine, and prints a table of facts.

Needs Python 3.10 or later and an engine on this machine that the command `docker` reaches.
"""

import argparse
import json
import sys
import tempfile
import time
from pathlib import Path

import building
import sizes
import monitoring  # noqa: F401 - its fact is in the table once it is imported
from engine import Container, Failed, docker
from facts import FACTS
from models import ROOT, Models
from wire import status


# Where containers may be reached, the better one first.
NETWORKS = {
    "bridge": "containers are asked at their own addresses",
    "host": "the engine's own network does not lead here, so ports are those of this machine",
}


class Proof:
    """What the facts are about, and what they share."""

    def __init__(self, image, folder, build_options):
        self.image, self.folder, self.build_options = image, folder, build_options
        self.models = Models(folder)
        self.network = "bridge"

    def inspect(self):
        """What the engine knows of the image."""
        return json.loads(docker("image", "inspect", self.image).stdout)[0]

    def choose_network(self):
        """The engine's own network if containers can be reached in it from here, else this machine's."""
        for network, text in NETWORKS.items():
            with Container(self.image, ["serve"], self.models.mount("single"), network) as container:
                for _ in range(50):
                    if status(container.address(), 8080, "/ping") is not None:
                        self.network = network
                        return f"{network}: {text}"
                    time.sleep(0.1)
                last = container.log().strip().splitlines()[-1:]
        raise Failed(f"{self.image} answers on no network; its last line: {last}")


def main():
    """Parses, builds where asked to, proves, prints."""
    options = arguments()
    if options.sizes:
        sys.exit(weigh(options.program))
    facts = [it for it in FACTS if not options.only or any(word in it[1].__name__ for word in options.only)]
    failed = 0
    with tempfile.TemporaryDirectory(prefix="muster-proof-") as folder:
        proof = Proof(options.image or building.IMAGE, Path(folder), options.build_option)
        if not options.image:
            text = "the image builds, and a change of one file compiles no dependency again"
            if not told(text, building.build, proof):
                sys.exit(1)
        if not told(f"a container of {proof.image} can be reached", Proof.choose_network, proof):
            sys.exit(1)
        for text, function in facts:
            failed += not told(text, function, proof)
    print(f"\n{failed} facts FAILED" if failed else "\nall facts hold")
    sys.exit(1 if failed else 0)


def weigh(program):
    """What there is to say of a program without an engine; the exit code."""
    with tempfile.TemporaryDirectory(prefix="muster-proof-") as folder:
        models = Models(Path(folder))
        holds = [told(text, lambda models, it=it: it(program, models), models) for text, it in sizes.FACTS]
    return 0 if all(holds) else 1


def told(text, function, proof):
    """One line of the table; whether the fact holds."""
    try:
        outcome, detail = "ok", function(proof)
    except (Failed, OSError) as error:
        outcome, detail = "FAILED", error
    print(f"{outcome:6}  {text}\n        {detail}", flush=True)
    return outcome == "ok"


def arguments():
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add = parser.add_argument
    add("--image", help="an image that is there; without it one is built, and built again after a change")
    option = "for docker build, as --build-option=--network=host"
    add("--build-option", action="append", default=[], metavar="OPTION", help=option)
    add("--sizes", action="store_true", help="what models of texts, images and sounds add to a program; needs no engine")
    add("--program", type=Path, default=ROOT / "target/dist/muster", help="the program for --sizes")
    add("--only", nargs="+", metavar="WORD", help="facts with such a word in the name of their function")
    return parser.parse_args()


if __name__ == "__main__":
    main()
