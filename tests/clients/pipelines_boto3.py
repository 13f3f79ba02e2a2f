"""Sends texts, an image and a sound to SageMaker's runtime with boto3 and with the command line of AWS, as users of Hugging Face's container
do.

Usage: pipelines_boto3.py URL SPOOL      of a server with --aws-facade, --async-spool SPOOL, and the models `sst2`,
`st-6`, `ner`, `question-answering`, `zero-shot`, `vit` and `speech`.
"""

import json
import os
import sys
import tempfile
from pathlib import Path

from aws_boto3 import SPOOL, client, in_spool, note
from aws_cli import aws
from botocore.exceptions import ClientError

ROOT = Path(__file__).parent.parent.parent
FIXTURES = ROOT / "tests/fixtures/pipelines"
PICTURE, PHOTOGRAPH = FIXTURES / "pictures/96x64.png", ROOT / "model_repository/shapes/star.jpg"
SOUND = FIXTURES / "speech/0.wav"

GOOD = "the movie was great and i loved it"


def ask(runtime, endpoint, body, content="application/json", **others):
    body = body if isinstance(body, (bytes, str)) else json.dumps(body)
    response = runtime.invoke_endpoint(EndpointName=endpoint, Body=body, ContentType=content, **others)
    assert response["InvokedProductionVariant"] == "AllTraffic", response
    return response["Body"].read().decode()


def a_class_has_a_label_and_a_score(runtime):
    (one,) = json.loads(ask(runtime, "sst2", {"inputs": GOOD}))
    assert set(one) == {"label", "score"} and 0 < one["score"] <= 1, one
    both = json.loads(ask(runtime, "sst2", {"inputs": [GOOD, "so bad"]}))
    assert len(both) == 2 and both[0] == one, both
    every = json.loads(ask(runtime, "sst2", {"inputs": GOOD, "parameters": {"top_k": None}}))
    assert len(every) > 1 and every[0] == one, every
    assert abs(sum(it["score"] for it in every) - 1) < 1e-5, every


def bodies_of_other_types_say_the_same(runtime):
    (one,) = json.loads(ask(runtime, "sst2", {"inputs": GOOD}))
    for content, body in [("text/plain", GOOD), ("application/x-text", GOOD), ("text/csv", f"inputs\n{GOOD}\n")]:
        answer = ask(runtime, "sst2", body, content, Accept="application/json")
        assert json.loads(answer) == [one], (content, answer)
    lines = f'{{"inputs": "{GOOD}"}}\n{{"inputs": "so bad"}}\n'
    answers = ask(runtime, "sst2", lines, "application/jsonlines", Accept="application/jsonlines").splitlines()
    assert len(answers) == 2 and json.loads(answers[0]) in (one, [one]), answers
    table = ask(runtime, "sst2", {"inputs": [GOOD, "so bad"]}, Accept="text/csv").splitlines()
    assert table[0] == "label,score" and len(table) == 3, table


def other_tasks_have_their_answers(runtime):
    vectors = json.loads(ask(runtime, "st-6", {"inputs": [GOOD, "so bad"]}))
    assert len(vectors) == 2 and len(vectors[0]) == len(vectors[1]) > 1, vectors
    assert isinstance(json.loads(ask(runtime, "ner", {"inputs": "John lives in Paris"})), list)
    question = {"question": "who lives here?", "context": "John lives here."}
    answer = json.loads(ask(runtime, "question-answering", {"inputs": question}))
    assert question["context"][answer["start"] : answer["end"]] == answer["answer"], answer
    labels = {"candidate_labels": ["good", "bad"]}
    found = json.loads(ask(runtime, "zero-shot", {"inputs": GOOD, "parameters": labels}))
    assert found["sequence"] == GOOD and sorted(found["labels"]) == ["bad", "good"], found


def a_model_may_be_named_behind_the_endpoint(runtime):
    vector = json.loads(ask(runtime, "my-ep", {"inputs": GOOD}, TargetModel="st-6"))
    assert vector == json.loads(ask(runtime, "st-6", {"inputs": GOOD})), vector


def what_is_wrong_is_the_models_error(runtime):
    wrong = [({"inputs": GOOD, "parameters": {"topk": 1}}, "top_k"), ({"input": GOOD}, "inputs"), ({"inputs": []}, "")]
    for body, named in wrong:
        try:
            ask(runtime, "sst2", body)
            raise AssertionError(f"expected ModelError for {body}")
        except runtime.exceptions.ModelError as error:
            assert error.response["OriginalStatusCode"] == 400, error.response
            assert named in error.response["OriginalMessage"], error.response


def a_reply_comes_as_a_stream(runtime):
    body = json.dumps({"inputs": GOOD})
    response = runtime.invoke_endpoint_with_response_stream(
        EndpointName="sst2", Body=body, ContentType="application/json"
    )
    parts = [event["PayloadPart"]["Bytes"] for event in response["Body"]]
    assert json.loads(b"".join(parts)) == json.loads(ask(runtime, "sst2", body)), parts


def a_text_is_answered_later(runtime):
    os.makedirs(os.path.join(SPOOL, "texts"))
    with open(os.path.join(SPOOL, "texts", "one.json"), "w") as file:
        json.dump({"inputs": GOOD}, file)
    response = runtime.invoke_endpoint_async(
        EndpointName="sst2", InputLocation="s3://texts/one.json", ContentType="application/json"
    )
    assert note(response)["invocationStatus"] == "Completed"
    with open(in_spool(response["OutputLocation"])) as file:
        assert json.load(file) == json.loads(ask(runtime, "sst2", {"inputs": GOOD}))


def an_image_and_a_sound_are_files(runtime):
    for path, content in [(PICTURE, "image/png"), (PHOTOGRAPH, "image/jpeg")]:
        found = json.loads(ask(runtime, "vit", path.read_bytes(), content))
        assert len(found) == 5 and found[0]["score"] >= found[1]["score"], found
        assert json.loads(ask(runtime, "vit", path.read_bytes(), "application/x-image")) == found
    assert json.loads(ask(runtime, "speech", SOUND.read_bytes(), "audio/wav"))["text"]


def the_command_line_asks_the_same(runtime):
    with tempfile.TemporaryDirectory() as folder:
        text, out = Path(folder, "body.txt"), Path(folder, "out.json")
        text.write_text(GOOD)
        asked = [("sst2", text, "text/plain"), ("vit", PHOTOGRAPH, "image/jpeg"), ("speech", SOUND, "audio/wav")]
        for endpoint, body, content in asked:
            given = ["--endpoint-name", endpoint, "--body", f"fileb://{body}", "--content-type", content, str(out)]
            done = aws("invoke-endpoint", *given)
            assert done.returncode == 0, done.stderr
            assert json.loads(done.stdout)["ContentType"] == "application/json", done.stdout
            assert json.loads(out.read_text()) == json.loads(ask(runtime, endpoint, body.read_bytes(), content))


def main():
    os.environ |= {
        "AWS_ENDPOINT_URL_SAGEMAKER_RUNTIME": sys.argv[1],
        "AWS_ACCESS_KEY_ID": "x",
        "AWS_SECRET_ACCESS_KEY": "y",
        "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_EC2_METADATA_DISABLED": "true",
    }
    runtime = client()
    checks = [
        a_class_has_a_label_and_a_score,
        bodies_of_other_types_say_the_same,
        other_tasks_have_their_answers,
        a_model_may_be_named_behind_the_endpoint,
        what_is_wrong_is_the_models_error,
        a_reply_comes_as_a_stream,
        a_text_is_answered_later,
        an_image_and_a_sound_are_files,
        the_command_line_asks_the_same,
    ]
    for check in checks:
        try:
            check(runtime)
        except ClientError as error:
            raise AssertionError(f"{check.__name__}: {error}") from error
        print(check.__name__)


if __name__ == "__main__":
    main()
