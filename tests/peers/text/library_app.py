"""What most write: sentence-transformers behind FastAPI."""

import os

from sentence_transformers import SentenceTransformer

from openai_form import application

model = SentenceTransformer(os.environ["PEER_MODEL"], device="cpu")


def encode(texts):
    """Unit vectors of some texts, which run together."""
    return model.encode(texts, normalize_embeddings=True, show_progress_bar=False)


app = application(encode)
