"""What most write: sentence-transformers behind FastAPI."""

import os

import torch
from sentence_transformers import SentenceTransformer

from openai_form import application

if int(os.environ["PEER_THREADS"]):
    torch.set_num_threads(int(os.environ["PEER_THREADS"]))
model = SentenceTransformer(os.environ["PEER_MODEL"], device="cpu")


def encode(texts):
    """Unit vectors of some texts, which run together."""
    return model.encode(texts, normalize_embeddings=True, show_progress_bar=False)


app = application(encode)
