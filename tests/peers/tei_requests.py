"""What text-embeddings-inference and muster are both asked: every route, requests that are right and some that are not."""

LONG = "a very long text about a small river and a large city that goes on and on " * 40
TEXTS = ["a text", "another one", "a much longer text, so that something is padded"]
JSON = {"Content-Type": "application/json"}
ROUTES = ("/embed", "/embed_all", "/embed_sparse", "/predict", "/rerank", "/similarity", "/tokenize", "/decode",
          "/embeddings", "/v1/embeddings", "/vertex", "/invocations")


def every():
    """Requests: method, path, body (JSON, bytes or none), headers."""
    yield from plain()
    for path in ("/embed", "/embed_all", "/embed_sparse"):
        yield from posts(path, texts())
    for path in ("/v1/embeddings", "/embeddings"):
        yield from posts(path, openai())
    yield from posts("/embed", vectors())
    yield from posts("/predict", classes())
    yield from posts("/rerank", rankings())
    yield from posts("/similarity", similarities())
    yield from posts("/tokenize", tokenized())
    yield from posts("/decode", decoded())
    yield from posts("/vertex", several())
    for path in ("/", "/invocations"):
        yield from posts(path, ({"inputs": "a text"}, {"inputs": TEXTS[:2]}, {"query": "a", "texts": ["b", "c"]}))


def posts(path, bodies):
    """These bodies at that path."""
    return (("POST", path, body, JSON) for body in bodies)


def plain():
    """Other methods, paths and types of content."""
    for path in ("/info", "/health", "/ping"):
        yield "GET", path, None, {}
        yield "HEAD", path, None, {}
    for path in ROUTES:
        yield "GET", path, None, {}
    for method, path in (("POST", "/info"), ("POST", "/health"), ("PUT", "/embed"), ("DELETE", "/embed"),
                         ("POST", "/none"), ("GET", "/none")):
        yield method, path, {"inputs": "a"}, JSON
    for kind in (None, "text/plain", "application/json; charset=utf-8", "application/x+json"):
        for path in ("/embed", "/predict"):
            yield "POST", path, {"inputs": "a"}, {"Content-Type": kind} if kind else {}
    for path in ("/embed", "/predict"):
        yield "POST", path, {"inputs": "a" * 2_100_000}, JSON


def texts():
    """Of routes that take texts or token ids."""
    for given in ("a text", TEXTS, [2, 5, 6, 7, 3], [[2, 5, 6, 3], [2, 8, 3]], [5, 6, 7], ["a text", [2, 6, 3]],
                  [999999], "", [""], [], [[]], None, 7, {"a": 1}, [["a", "b"]], ["a", 5], [-1], [1.5], ["a"] * 32,
                  ["a"] * 33, LONG, "é 漢字 🙂 \u0000"):
        yield {"inputs": given}
    yield from ({}, [], b"", b"{", b'{"inputs": "a"} x', b'{"inputs": "\xff"}', b'{"inputs": "a", "inputs": "b"}')
    yield {"inputs": [TEXTS[0], LONG], "truncate": False}
    for truncate in (True, False, None, "yes"):
        yield {"inputs": LONG, "truncate": truncate}
    for direction in ("left", "Left", "right", "Right", "LEFT", None, 1):
        yield {"inputs": LONG, "truncate": True, "truncation_direction": direction}
    for name in (None, "query", "none such", 7):
        yield {"inputs": "a", "prompt_name": name}
    yield {"inputs": "a", "unknown": 1}


def vectors():
    """Of `/embed` alone."""
    for normalize in (True, False, None, 1):
        yield {"inputs": TEXTS, "normalize": normalize}
    for dimensions in (None, 0, 1, 4, 16, 100000, -1, "4", 2.0):
        yield {"inputs": "a text", "dimensions": dimensions}
    yield {"inputs": "a text", "dimensions": 4, "normalize": False}


def openai():
    """Of OpenAI's route."""
    for given in ("a text", TEXTS, [2, 5, 6, 3], [[2, 5, 3], [2, 7, 3]], "", [""], [], [[]], None, 7, ["a"] * 33, LONG):
        yield {"input": given, "model": "m"}
    for model in ("wrong name", None, 7):
        yield {"input": "a", "model": model}
    for form in ("base64", "float", "other", None):
        yield {"input": TEXTS, "encoding_format": form}
    for dimensions in (4, 0, 100000, "4"):
        yield {"input": "a", "dimensions": dimensions}
    yield from ({"input": "a"}, {"input": "a", "user": "u", "unknown": 1}, {"model": "m"}, b"{")


def classes():
    """Of `/predict`."""
    for given in ("a text", ["a text"], ["a text", "another one"], ["a", "b", "c"], [["a text"], ["another", "one"]],
                  [["a text"], "b"], [["a", "b", "c"]], [[]], [], "", None, 5, [5, 6], [["a"]] * 33, LONG):
        yield {"inputs": given}
    for raw in (True, False, None, 1):
        yield {"inputs": [["a"]], "raw_scores": raw}
    yield {"inputs": LONG, "truncate": False}
    yield {"inputs": LONG, "truncate": True, "truncation_direction": "left"}
    yield from ({}, {"inputs": "a", "unknown": [1]})


def rankings():
    """Of `/rerank`."""
    usual = {"query": "what is a river", "texts": ["a river is long", "a city", "x"]}
    for change in ({}, {"return_text": True}, {"raw_scores": True}, {"raw_scores": True, "return_text": True},
                   {"return_text": None}, {"return_text": "x"}, {"texts": []}, {"texts": [""]}, {"query": ""},
                   {"texts": "one"}, {"texts": None}, {"texts": ["a"] * 33}, {"texts": [5]},
                   {"texts": [{"text": "a"}]}, {"query": 5}, {"top_n": 1}, {"texts": [LONG]},
                   {"texts": [LONG], "truncate": False}, {"query": LONG}, {"query": LONG, "truncate": False},
                   {"texts": [LONG], "truncate": True, "truncation_direction": "left"}):
        yield usual | change
    yield from ({"query": "a"}, {"texts": ["a"]})


def similarities():
    """Of `/similarity`."""
    usual = {"source_sentence": "a river", "sentences": ["a city", "a stream"]}
    for parameters in ({"prompt_name": "query"}, {"prompt_name": "none such"}, None, 5,
                       {"truncate": True, "truncation_direction": "left"}):
        yield {"inputs": usual, "parameters": parameters}
    for change in ({}, {"sentences": []}, {"sentences": "a"}, {"sentences": ["a"] * 31}, {"sentences": ["a"] * 32},
                   {"source_sentence": ""}, {"sentences": [""]}):
        yield {"inputs": usual | change, "unknown": 5}
    yield {"inputs": usual | {"sentences": [LONG]}, "parameters": {"truncate": False}}
    yield from ({"inputs": {"source_sentence": "a"}}, {"inputs": {"sentences": ["a"]}}, {"inputs": "a"}, {})


def tokenized():
    """Of `/tokenize`."""
    for given in ("a text", TEXTS, "", [""], [], None, 5, [5], ["a"] * 33, LONG, "é 漢字 🙂 unwillingly"):
        yield {"inputs": given}
    for special in (False, None):
        yield {"inputs": "a text", "add_special_tokens": special}
    for name in ("query", "none such"):
        yield {"inputs": "a text", "prompt_name": name}
    yield from ({"inputs": "a", "unknown": 1}, {})


def decoded():
    """Of `/decode`."""
    for given in ([5, 6, 7], [[5, 6], [7]], [], [[]], [[5], []], 5, "a", [5, [6]], [-1], [999999], [[2]] * 33):
        yield {"ids": given}
    for skip in (True, False, None):
        yield {"ids": [2, 5, 6, 3], "skip_special_tokens": skip}
    yield from ({"inputs": [5]}, {})


def several():
    """Of `/vertex`."""
    ranking = {"query": "what is a river", "texts": ["a river is long", "a city"]}
    for given in ([{"inputs": "a text"}], [{"inputs": "a text"}, {"inputs": TEXTS[:2]}], [ranking],
                  [ranking, {"inputs": "a"}], [], [{}], [5], "a", [{"inputs": []}], [{"inputs": "a"}] * 33,
                  [{"inputs": "a", "normalize": False}], [{"inputs": LONG, "truncate": False}]):
        yield {"instances": given}
    yield from ({"instances": [{"inputs": "a"}], "parameters": {"a": 1}}, {}, {"inputs": "a"})
