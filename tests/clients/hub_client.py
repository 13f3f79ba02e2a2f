"""Fetches files of a model with `huggingface_hub`, or finds them in a cache.

Usage: hub_client.py CACHE REPOSITORY REVISION FILE..

The hub is that of `HF_ENDPOINT`, and with `HF_HUB_OFFLINE` none is asked. Prints the directory of the revision.
"""

import os
import sys

from huggingface_hub import hf_hub_download


def main():
    cache, repository, revision, *files = sys.argv[1:]
    for file in files:
        path = hf_hub_download(repository, file, revision=revision, cache_dir=cache)
    print(path.removesuffix(files[-1]).rstrip(os.sep))


main()
