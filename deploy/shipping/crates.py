"""The crates that are inside the programs, from cargo's own resolution."""

import json
import re
import subprocess
import sys
import tomllib
from dataclasses import dataclass
from pathlib import Path

from .programs import ROOT

# Names of files with terms or notices, in the folder of a crate.
TEXTS = re.compile(r"(un)?licen[cs]e|copying|copyright|notice", re.IGNORECASE)


@dataclass(frozen=True)
class Crate:
    """A crate of others."""

    name: str
    version: str
    license: str
    repository: str
    description: str
    digest: str
    folder: Path

    @property
    def purl(self):
        """Its name in lists of what software is made of."""
        return f"pkg:cargo/{self.name}@{self.version}"

    def texts(self):
        """The texts of its licences and notices, in the order of their names."""
        files = [it for it in self.folder.iterdir() if TEXTS.match(it.name) and it.is_file() and it.suffix != ".rs"]
        return [it.read_text(errors="replace").strip() for it in sorted(files)]


def inside(machine, packages_of_ours):
    """The crates of others in the programs of these packages, in the order of their names, and for each, by its purl,
    those that it stands on. The key `None` has those that muster names itself."""
    command = ["cargo", "metadata", "--format-version=1", "--locked"]
    command += ["--filter-platform", f"{machine}-unknown-linux-gnu"]
    done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE)
    if done.returncode != 0:
        sys.exit("cargo metadata failed; it needs the crates, which `cargo fetch --locked` brings")
    metadata = json.loads(done.stdout)
    packages = {it["id"]: it for it in metadata["packages"]}
    nodes = {it["id"]: linked(it, packages) for it in metadata["resolve"]["nodes"]}
    reached, waiting = set(), [it["id"] for it in packages.values() if it["name"] in packages_of_ours]
    while waiting:
        package = waiting.pop()
        if package not in reached:
            reached.add(package)
            waiting.extend(nodes[package])
    digests = locked()
    crates = {it: crate(packages[it], digests) for it in reached if packages[it]["source"] is not None}
    below = {None: set()} | {it.purl: set() for it in crates.values()}
    for package in reached:
        key = crates[package].purl if package in crates else None
        below[key] |= {crates[it].purl for it in nodes[package] if it in crates}
    ordered = sorted(crates.values(), key=lambda it: (it.name, it.version))
    return ordered, {key: sorted(it) for key, it in below.items()}


def linked(node, packages):
    """The packages whose code is in a program with this one: not what tests and builds need, nor macros' own code."""
    kept = []
    for it in node["deps"]:
        is_macro = any("proc-macro" in target["kind"] for target in packages[it["pkg"]]["targets"])
        if not is_macro and any(kind["kind"] is None for kind in it["dep_kinds"]):
            kept.append(it["pkg"])
    return kept


def crate(package, digests):
    """What of cargo's description goes into notices and lists."""
    return Crate(
        name=package["name"],
        version=package["version"],
        license=re.sub(r"\s*/\s*", " OR ", package["license"] or ""),
        repository=(package["repository"] or "").removesuffix(".git").rstrip("/"),
        description=(package["description"] or "").strip(),
        digest=digests.get((package["name"], package["version"]), ""),
        folder=Path(package["manifest_path"]).parent,
    )


def locked():
    """SHA-256 of each crate, as Cargo.lock has it."""
    lock = tomllib.loads((ROOT / "Cargo.lock").read_text())
    return {(it["name"], it["version"]): it.get("checksum", "") for it in lock["package"]}
