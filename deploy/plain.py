#!/usr/bin/env python3
"""Writes kubernetes/muster.yaml, one file for `kubectl apply -f`, of the kustomization kubernetes/plain.

Needs kustomize or kubectl.

  deploy/plain.py            writes the file
  deploy/plain.py --check    fails where the file is not what it would write
"""

import shutil
import subprocess
import sys
from pathlib import Path

FOLDER = Path(__file__).resolve().parent / "kubernetes"
FILE = FOLDER / "muster.yaml"
HEAD = """\
# muster on Kubernetes in one file: kubectl apply -f deploy/kubernetes/muster.yaml
# Change two values: `image` of the Deployment, and MODEL of the ConfigMap, which names what is served.
# Made of kubernetes/plain by deploy/plain.py, and not edited by hand. kubernetes/base says why each value is as it is.
"""


def program():
    """What builds kustomizations, or nothing."""
    programs = (["kustomize", "build"], ["kubectl", "kustomize"])
    return next((it for it in programs if shutil.which(it[0])), None)


def text(builder):
    """What the file should be."""
    done = subprocess.run([*builder, str(FOLDER / "plain")], capture_output=True, text=True)
    if done.returncode != 0:
        raise SystemExit(done.stderr.strip())
    return HEAD + done.stdout


def main():
    """Writes or compares."""
    builder = program()
    if not builder:
        raise SystemExit("there is no kustomize and no kubectl to build kubernetes/plain with")
    wanted = text(builder)
    if "--check" not in sys.argv[1:]:
        FILE.write_text(wanted)
    elif FILE.read_text() != wanted:
        raise SystemExit(f"{FILE.name} is not what kubernetes/plain makes; run python3 deploy/plain.py")


if __name__ == "__main__":
    main()
