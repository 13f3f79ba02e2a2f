"""Labels each line of a file: examples/sentence/ask.py FILE"""

import sys

import requests

BATCH = 32
session = requests.Session()
with open(sys.argv[1], encoding="utf-8") as file:
    lines = [line.strip() for line in file if line.strip()]
for start in range(0, len(lines), BATCH):
    batch = lines[start:start + BATCH]
    reply = session.post("http://localhost:8080/invocations", json={"inputs": batch}, timeout=30)
    reply.raise_for_status()
    for line, found in zip(batch, reply.json()):
        best = found[0] if isinstance(found, list) else found
        print(best["label"], f"{best['score']:.2f}", line)
