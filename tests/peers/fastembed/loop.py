"""Embeds the texts of a file by fastembed without a server: `loop.py FOLDER FILE SECONDS THREADS ROWS`.

Prints the vectors of the texts, and what calls with all of them took. With 0 threads and 0 rows a call is as the
library's own examples have it; else its texts are sorted by length, and so many run together on so many threads.
"""

import json
import sys
import time
from pathlib import Path

from fastembed import TextEmbedding
from fastembed.common.model_description import ModelSource, PoolingType


def main(folder, file, seconds, threads, rows):
    """Calls for so long; the last call may end later."""
    nowhere = ModelSource(url="file:")
    TextEmbedding.add_custom_model("minilm", PoolingType.MEAN, True, nowhere, 384, model_file="model.onnx")
    model = TextEmbedding("minilm", specific_model_path=folder, threads=int(threads) or None)
    texts = Path(file).read_text(encoding="utf-8").splitlines()

    def call():
        if int(rows):
            return list(model.embed(sorted(texts, key=len), int(rows)))
        return list(model.embed(texts))

    call()
    count, begin, cpu = 0, time.monotonic(), time.process_time()
    while time.monotonic() - begin < float(seconds):
        count += len(call())
    took = {"texts": count, "seconds": time.monotonic() - begin, "cpu_s": time.process_time() - cpu}
    print(json.dumps({**took, "vectors": [it.tolist() for it in model.embed(texts)]}))


if __name__ == "__main__":
    main(*sys.argv[1:])
