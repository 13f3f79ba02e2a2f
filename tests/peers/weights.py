#!/usr/bin/env python3
"""A folder with weights alone by muster, also in 8 bits, beside an ONNX export of the same model by muster, and
transformers.

    PYTHON tests/peers/weights.py                 one core, then two; some six minutes
    PYTHON tests/peers/weights.py --layers 2 --quick

PYTHON has what `tests/fixtures/weights/requirements.txt` lists, and `onnx` with `onnxscript`. The model is BERT-base
with random weights, and every text has 128 tokens. The four take turns, and each ratio is of neighbouring blocks.
transformers runs in a bare loop without a server, with the batch that is the fastest for it.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import threading
import time
from http.client import HTTPConnection
from pathlib import Path
from statistics import median

from processes import Server, free_port, tree

ROOT = Path(__file__).resolve().parents[2]
TOKENS = 128
# Texts of a request, and connections that send one after the other.
TEXTS, CONNECTIONS = 4, 2
BATCHES = (1, 8, 32)
ALIKE = 0.9999
# Random weights in 8 bits; precision.py has those of a model that was trained.
NEARLY_ALIKE = 0.98
INT8 = ["--pipeline-precision=int8"]
START_LIMIT = 120


def main():
    """Makes the folders, or takes those that are there, and compares."""
    options = arguments()
    if options.loop:
        loop(options.loop)
        return
    made = options.work / f"weights-{options.layers}"
    weights, export = made / "weights", made / "export"
    if not (export / "model.onnx").exists():
        make(weights, export, options.layers)
    size = (weights / "model.safetensors").stat().st_size
    print(f"{options.layers} layers, {size / 2**20:.0f} MiB of weights, texts of {TOKENS} tokens\n")
    print("| Start | s | peak MiB | peak / file | at rest MiB | at rest / file |\n|---|--:|--:|--:|--:|--:|")
    for name, folder, more in (("weights", weights, []), ("in 8 bits", weights, INT8), ("export", export, [])):
        starts = [start(options, folder, more) for _ in range(1 if options.quick else 3)]
        seconds, peak, rest = (median(it) for it in zip(*starts))
        in_file = 2**20 / size
        print(f"| {name} | {seconds:.2f} | {peak:.0f} | {peak * in_file:.2f} | {rest:.0f} | {rest * in_file:.2f} |")
    print(flush=True)
    print("| Cores | weights, texts/s | in 8 bits / weights | weights / export | weights / transformers | its batch |")
    print("|--:|--:|--:|--:|--:|--:|")
    for cores in options.cores:
        compare(options, cores, weights, export)


def arguments():
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add = parser.add_argument
    add("--muster", type=Path, default=ROOT / "target/dist/muster", help="the release build")
    add("--work", type=Path, default=ROOT / "target/peers", help="folder of models")
    add("--layers", type=int, default=12)
    add("--cores", type=int, nargs="+", default=[1, 2], help="of the servers")
    add("--rounds", type=int, default=6, help="in which each of the four has its turn")
    add("--seconds", type=float, default=8.0, help="of a turn")
    add("--quick", action="store_true", help="2 rounds: a look, no measurement")
    add("--serve-option", action="append", default=[], help="of `muster serve`, for both folders")
    add("--loop", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.quick:
        options.rounds, options.seconds = 2, 4.0
    options.work = options.work.resolve()
    return options


def make(weights, export, layers):
    """The folder as `save_pretrained` leaves it, and one with its graph."""
    import torch
    import transformers as hf
    from tokenizers import Tokenizer, models, pre_tokenizers, processors

    shutil.rmtree(weights.parent, ignore_errors=True)
    torch.manual_seed(0)
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    words = special + [f"w{it}" for it in range(30522 - len(special))]
    tokenizer = Tokenizer(models.WordLevel({word: at for at, word in enumerate(words)}, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    names = {f"{it.strip('[]').lower()}_token": it for it in special}
    tokenizer = hf.PreTrainedTokenizerFast(tokenizer_object=tokenizer, model_max_length=512, **names)
    config = hf.BertConfig(num_hidden_layers=layers, attn_implementation="eager")
    model = hf.BertModel(config, add_pooling_layer=False).eval()
    model.save_pretrained(weights)
    tokenizer.save_pretrained(weights)
    kind = "sentence_transformers.models."
    modules = [{"path": "", "type": kind + "Transformer"}, {"path": "1_Pooling", "type": kind + "Pooling"}]
    modules = [{"idx": at, "name": str(at), **it} for at, it in enumerate(modules)]
    (weights / "modules.json").write_text(json.dumps(modules))
    (weights / "1_Pooling").mkdir()
    pooling = {"word_embedding_dimension": 768, "pooling_mode_mean_tokens": True}
    (weights / "1_Pooling/config.json").write_text(json.dumps(pooling))
    shutil.copytree(weights, export, ignore=shutil.ignore_patterns("*.safetensors"))
    inputs = ("input_ids", "attention_mask", "token_type_ids")
    sample = [torch.ones(2, 16, dtype=torch.long) for _ in inputs]

    class Named(torch.nn.Module):
        """The encoder with inputs by position."""

        def __init__(self):
            super().__init__()
            self.encoder = model

        def forward(self, ids, mask, kinds):
            """The vectors of the tokens."""
            return self.encoder(input_ids=ids, attention_mask=mask, token_type_ids=kinds).last_hidden_state

    dims = {0: torch.export.Dim("rows", min=1, max=4096), 1: torch.export.Dim("tokens", min=2, max=512)}
    program = torch.onnx.export(
        Named(), tuple(sample), dynamo=True, dynamic_shapes=(dims,) * 3, input_names=list(inputs),
        output_names=["last_hidden_state"], opset_version=20, external_data=False, verbose=False,
    )
    program.save(export / "model.onnx")


def text(chance):
    """Words, each of which is a token; two more tokens stand around them."""
    return " ".join(f"w{(chance * 7919 + it * 104729) % 30000}" for it in range(TOKENS - 2))


def served(options, folder, cores=None, more=()):
    """muster over the folder, on so many cores; its port is in it."""
    port = free_port()
    command = ["taskset", "-c", f"0-{cores - 1}"] if cores else []
    command += [options.muster, "serve", folder, "--model-name=m", "--http-address=127.0.0.1", f"--http-port={port}"]
    command += ["--grpc-port=0", "--sagemaker-port=0", "--metrics-port=0", "--max-queue-wait-ms=0"]
    log = options.work / f"muster-{folder.name}{'-'.join(more)}.log"
    server = Server([*command, *more, *options.serve_option], log)
    server.port = port
    server.seconds = server.wait_until_right(lambda: None if ask(server, ["w1"]) else "no vector", START_LIMIT)
    return server


def ask(server, texts, connection=None):
    """Vectors of some texts."""
    connection = connection or HTTPConnection("127.0.0.1", server.port, timeout=60)
    connection.request("POST", "/embed", json.dumps({"inputs": texts, "truncate": True}), {"Content-Type": "application/json"})
    reply = connection.getresponse()
    answer = reply.read()
    if reply.status != 200:
        raise ValueError(f"status {reply.status}: {answer[:200].decode(errors='replace')}")
    return json.loads(answer)


def start(options, folder, more):
    """Seconds to the first answer, and MiB of all processes: at most, and at rest."""
    with served(options, folder, more=more) as server:
        status = [Path(f"/proc/{it}/status").read_text() for it in tree(server.pid)]
        peaks = [int(it.split("VmHWM:")[1].split()[0]) for it in status if "VmHWM:" in it]
        time.sleep(1)
        return server.seconds, sum(peaks) / 1024, server.memory()[1]


def compare(options, cores, weights, export):
    """A row of the table."""
    one, other = served(options, weights, cores), served(options, export, cores)
    small = served(options, weights, cores, INT8)
    with one, other, small:
        library = Library(weights, cores)
        try:
            sample = [text(it) for it in range(3)] + ["w1 w2"]
            known = ask(one, sample)
            for name, vectors, alike in (
                ("export", ask(other, sample), ALIKE),
                ("transformers", library.vectors(sample), ALIKE),
                ("in 8 bits", ask(small, sample), NEARLY_ALIKE),
            ):
                least = min(map(cosine, known, vectors))
                if least < alike:
                    sys.exit(f"{name} answers something else: a cosine of {least:.6f}")
            batch = max(BATCHES, key=lambda it: library.rate(it, options.seconds / 2))
            for server in (one, other, small):
                rate(server, options.seconds / 2)
            of_export, of_library, of_small, rates = [], [], [], []
            for _ in range(options.rounds):
                found = rate(one, options.seconds)
                rates.append(found)
                of_small.append(rate(small, options.seconds) / found)
                of_export.append(found / rate(other, options.seconds))
                of_library.append(found / library.rate(batch, options.seconds))
        finally:
            library.end()
    ratio = lambda it: f"{median(it):.2f} ({min(it):.2f}–{max(it):.2f})"
    ratios = " | ".join(map(ratio, (of_small, of_export, of_library)))
    print(f"| {cores} | {median(rates):.1f} | {ratios} | {batch} |", flush=True)


def cosine(one, other):
    """How alike two vectors are."""
    length = lambda it: sum(value * value for value in it) ** 0.5
    return sum(a * b for a, b in zip(one, other)) / (length(one) * length(other))


def rate(server, seconds):
    """Texts a second over several connections."""
    end, counts = time.monotonic() + seconds, []

    def send(first):
        connection = HTTPConnection("127.0.0.1", server.port, timeout=60)
        texts = [text(first * TEXTS + it) for it in range(TEXTS)]
        count = 0
        while time.monotonic() < end:
            count += len(ask(server, texts, connection))
        counts.append((count, time.monotonic()))

    began = time.monotonic()
    threads = [threading.Thread(target=send, args=(it,)) for it in range(CONNECTIONS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return sum(it[0] for it in counts) / (max(it[1] for it in counts) - began)


class Library:
    """transformers in a process of its own, which answers a line with a line."""

    def __init__(self, folder, cores):
        command = ["taskset", "-c", f"0-{cores - 1}", sys.executable, __file__, "--loop", folder]
        variables = {**os.environ, "OMP_NUM_THREADS": str(cores), "HF_HUB_OFFLINE": "1"}
        self.process = subprocess.Popen(
            [str(it) for it in command], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=variables
        )

    def say(self, order):
        """What it answers."""
        self.process.stdin.write(json.dumps(order) + "\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())

    def vectors(self, texts):
        """Of these texts."""
        return self.say({"texts": texts})

    def rate(self, batch, seconds):
        """Texts a second."""
        return self.say({"batch": batch, "seconds": seconds})

    def end(self):
        """Ends the process."""
        self.process.kill()
        self.process.wait()


def loop(folder):
    """The other side of [`Library`]."""
    import torch
    import transformers as hf

    torch.set_num_threads(int(os.environ["OMP_NUM_THREADS"]))
    model, tokenizer = hf.AutoModel.from_pretrained(folder).eval(), hf.AutoTokenizer.from_pretrained(folder)

    @torch.inference_mode()
    def encode(texts):
        given = tokenizer(texts, padding=True, return_tensors="pt")
        states, mask = model(**given).last_hidden_state, given["attention_mask"][:, :, None]
        return (states * mask).sum(1) / mask.sum(1)

    for line in sys.stdin:
        order = json.loads(line)
        if "texts" in order:
            answer = encode(order["texts"]).tolist()
        else:
            texts = [text(it) for it in range(order["batch"])]
            began, count = time.monotonic(), 0
            while time.monotonic() < began + order["seconds"]:
                count += len(encode(texts))
            answer = count / (time.monotonic() - began)
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
