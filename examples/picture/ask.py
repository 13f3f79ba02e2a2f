"""Names what is in each picture: examples/picture/ask.py FILE.."""

import sys
from concurrent.futures import ThreadPoolExecutor

import requests

session = requests.Session()


def ask(path):
    with open(path, "rb") as file:
        reply = session.post(
            "http://localhost:8080/invocations", data=file, headers={"Content-Type": "application/x-image"}, timeout=30
        )
    reply.raise_for_status()
    return path, reply.json()[0]


with ThreadPoolExecutor(8) as pool:
    for path, best in pool.map(ask, sys.argv[1:]):
        print(f"{path}: {best['label']} {best['score']:.3f}")
