"""Every task with `huggingface_hub.InferenceClient`, at the address of a model and at that of a server.

Usage: pipelines_hub.py URL       of a server with the models `sst2`, `ner`, `question-answering`, `fill-mask`,
                                  `zero-shot`, `st-6`, `rerank`, `vit`, `clip`, `detr`, `speech` and
                                  `audio-classification`.
"""

import sys
from pathlib import Path

from huggingface_hub import InferenceClient
from huggingface_hub.errors import HfHubHTTPError


FIXTURES = Path(__file__).parent.parent / "fixtures/pipelines"


def main():
    url = sys.argv[1]

    def client(model):
        return InferenceClient(model=f"{url}/v2/models/{model}", token="none")

    classes = client("sst2").text_classification("I am super happy right now.")
    assert {it.label for it in classes} == {"NEGATIVE", "POSITIVE"}, classes
    assert abs(sum(it.score for it in classes) - 1) < 1e-5 and classes[0].score >= classes[1].score
    best = client("sst2").text_classification("I am super happy right now.", top_k=1)
    assert best == classes[:1], best

    ner = client("ner")
    entities = ner.token_classification("Ada Lovelace lives in London.")
    assert all(it.start < it.end and it.entity for it in entities), entities
    groups = ner.token_classification("Ada Lovelace lives in London.", aggregation_strategy="simple")
    assert all(it.entity_group and it.word for it in groups), groups

    answerer = client("question-answering")
    context = "Ada Lovelace lives in London."
    answer = answerer.question_answering(question="Where does Ada live?", context=context)
    assert context[answer.start : answer.end] == answer.answer, answer
    several = answerer.question_answering(question="Where does Ada live?", context=context, top_k=3)
    assert len(several) == 3, several

    filled = client("fill-mask").fill_mask("The [MASK] of a model.", top_k=3)
    assert len(filled) == 3 and all(it.token_str and it.sequence for it in filled), filled

    names = ["models", "rows", "batches"]
    labels = client("zero-shot").zero_shot_classification("A batch holds rows.", names)
    assert {it.label for it in labels} == set(names), labels
    assert abs(sum(it.score for it in labels) - 1) < 1e-5, labels
    single = client("zero-shot").zero_shot_classification("A batch.", names, multi_label=True)
    assert all(0 <= it.score <= 1 for it in single), single

    embedder = client("st-6")
    vector = embedder.feature_extraction("How many rows does a batch hold?")
    assert vector.shape == (1, 32), vector.shape
    assert abs(float((vector**2).sum()) - 1) < 1e-5
    plain = embedder.feature_extraction("How many rows does a batch hold?", normalize=False, truncate=True)
    assert plain.shape == (1, 32) and abs(float((plain**2).sum()) - 1) > 1e-3
    scores = embedder.sentence_similarity("A film.", other_sentences=["A film.", "Rows of a batch."])
    assert abs(scores[0] - 1) < 1e-5 and scores[1] < scores[0], scores

    picture = FIXTURES / "pictures/96x64.png"
    found = client("vit").image_classification(picture)
    assert len(found) == 5 and found[0].score >= found[1].score, found
    assert client("vit").image_classification(picture.read_bytes(), top_k=2) == found[:2]
    names = ["cat", "dog", "nothing"]
    labels = client("clip").zero_shot_image_classification(picture, names)
    assert {it.label for it in labels} == set(names), labels
    assert abs(sum(it.score for it in labels) - 1) < 1e-5, labels
    drawn = client("clip").zero_shot_image_classification(picture, names, hypothesis_template="a drawing of {}")
    assert drawn != labels, drawn
    objects = client("detr").object_detection(picture)
    assert objects and all(it.box.xmin <= it.box.xmax for it in objects), objects
    assert len(client("detr").object_detection(picture, threshold=0.1)) >= len(objects)
    sound = FIXTURES / "audio-classification/0.wav"
    heard = client("audio-classification").audio_classification(sound)
    assert abs(sum(it.score for it in heard) - 1) < 1e-5, heard
    assert client("speech").automatic_speech_recognition(FIXTURES / "speech/0.wav").text

    endpoint = InferenceClient(provider="hf-inference", model=f"{url}/v2/models/sst2", token="none")
    info = endpoint.get_endpoint_info()
    assert info["model_type"]["classifier"]["id2label"], info
    assert endpoint.health_check()

    try:
        client("sst2").fill_mask("The [MASK] of a model.", top_k=0)
        raise AssertionError("it was taken")
    except HfHubHTTPError as error:
        assert error.response.status_code == 400, error
    print("all that huggingface_hub asks is answered")


if __name__ == "__main__":
    main()
