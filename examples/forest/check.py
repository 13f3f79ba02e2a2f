"""Compares what the server answers with what the library says."""

import numpy as np
import requests
import xgboost

with open("held_out.csv", "rb") as file:
    reply = requests.post("http://localhost:8080/invocations", data=file, headers={"Content-Type": "text/csv"}, timeout=30)
reply.raise_for_status()
served = np.array([np.float32(value) for value in reply.text.replace(",", " ").split()])
rows = np.loadtxt("held_out.csv", delimiter=",", dtype=np.float32)
expected = xgboost.Booster(model_file="forest.ubj").predict(xgboost.DMatrix(rows))
print(f"{len(served)} rows, largest difference {float(abs(served - expected).max())}")
