"""Trains a small forest on made-up rows."""

import numpy as np
import xgboost

random = np.random.default_rng(7)
X = random.normal(size=(2000, 12)).astype(np.float32)
y = X[:, 0] * X[:, 1] + X[:, 2] > 0
booster = xgboost.train({"objective": "binary:logistic", "max_depth": 5}, xgboost.DMatrix(X[:1500], y[:1500]), 60)
booster.save_model("forest.ubj")
np.savetxt("held_out.csv", X[1500:], delimiter=",", fmt="%.9g")
print("wrote forest.ubj and held_out.csv")
