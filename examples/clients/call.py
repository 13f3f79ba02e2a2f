"""Asks for the probability of fraud of one row."""

import json
import urllib.request

tensor = {"name": "input", "shape": [1, 30], "datatype": "FP32", "data": [0.0] * 30}
request = urllib.request.Request(
    "http://localhost:8000/v2/models/fraud/infer",
    json.dumps({"inputs": [tensor]}).encode(),
    {"Content-Type": "application/json"},
)
with urllib.request.urlopen(request, timeout=10) as reply:
    print(json.load(reply)["outputs"][0]["data"][0])
