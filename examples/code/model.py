"""How many kilometres is it from here to there? One row is a pair of places; rows of many requests come at once."""

import numpy as np
from muster_python import InvalidInput, Tensor, batched

RADIUS_KM = 6371.0


class Model:
    def __init__(self):
        # Made once in each process: this is where weights and tables are loaded.
        self.radius = RADIUS_KM

    @batched
    def predict(self, start: Tensor["FP64", -1, 2], end: Tensor["FP64", -1, 2]) -> Tensor["FP64", -1]:
        """Degrees of latitude and longitude."""
        if (np.abs(start[:, 0]) > 90).any() or (np.abs(end[:, 0]) > 90).any():
            raise InvalidInput("a latitude is beyond 90 degrees")
        (lat1, lon1), (lat2, lon2) = np.radians(start).T, np.radians(end).T
        part = np.sin((lat2 - lat1) / 2) ** 2 + np.cos(lat1) * np.cos(lat2) * np.sin((lon2 - lon1) / 2) ** 2
        return 2 * self.radius * np.arcsin(np.sqrt(part))
