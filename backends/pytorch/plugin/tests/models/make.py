"""Makes the TorchScript files of the tests, and expected.json with what Python's torch answers.

    python3 make.py

Weights have no randomness, and files no source lines, which would name the folder that they were made in."""

import json
import os
import typing
import zipfile

import torch
from torch import nn

HERE = os.path.dirname(os.path.abspath(__file__))
EXPECTED = {}


def filled(module):
    """The same module with weights that depend on nothing."""
    state = 1
    with torch.no_grad():
        for tensor in list(module.parameters()) + list(module.buffers()):
            if tensor.is_floating_point():
                flat = []
                for _ in range(tensor.numel()):
                    state = (state * 1664525 + 1013904223) % 2**32
                    flat.append(state / 2**32 - 0.5)
                tensor.copy_(torch.tensor(flat).reshape(tensor.shape).to(tensor.dtype) * 0.5)
    for name, tensor in module.named_buffers():
        if name.endswith("running_var"):
            tensor.abs_().add_(0.5)
    return module


def ramp(*shape, dtype=torch.float32):
    count = torch.Size(shape).numel()
    return (torch.arange(count, dtype=torch.float64) / 7 - 1).reshape(shape).to(dtype)


def save(name, module, *inputs, trace=False, train=False):
    module = filled(module)
    module.train(train)
    script = torch.jit.trace(module, inputs, check_trace=False) if trace else torch.jit.script(module)
    script.save(os.path.join(HERE, name + ".pt"))
    rewrite(name + ".pt", name + ".pt", lambda name: not name.endswith(".debug_pkl"), {})
    if inputs and not train:
        with torch.inference_mode():
            # Some write to what they are given.
            result = script(*[it.clone() if isinstance(it, torch.Tensor) else it for it in inputs])
        flat = result if isinstance(result, (tuple, list)) else [result]
        record = lambda t: {"shape": list(t.shape), "data": t.flatten().tolist()}
        if all(isinstance(it, torch.Tensor) for it in [*inputs, *flat]) and not name.startswith(("plain", "deep")):
            EXPECTED[name] = {"inputs": [record(it) for it in inputs], "outputs": [record(it) for it in flat]}


def rewrite(old, new, keeps, replaced, compression=zipfile.ZIP_STORED):
    """Copies an archive: the files that it is to keep, some with other content."""
    with zipfile.ZipFile(os.path.join(HERE, old)) as archive:
        files = [(name, archive.read(name)) for name in archive.namelist() if keeps(name)]
    with zipfile.ZipFile(os.path.join(HERE, new), "w") as archive:
        for name, content in files:
            kind = compression if name.endswith(".py") else zipfile.ZIP_STORED
            content = replaced.get(name.rpartition("/")[2], content)
            archive.writestr(zipfile.ZipInfo(name), content, kind)


class Mlp(nn.Module):
    def __init__(self, dtype=torch.float32):
        super().__init__()
        self.fc1 = nn.Linear(5, 8, dtype=dtype)
        self.fc2 = nn.Linear(8, 3, dtype=dtype)

    def forward(self, x):
        return self.fc2(torch.relu(self.fc1(x)))


class Conv(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 4, 3, padding=1)
        self.norm = nn.BatchNorm2d(4)
        self.fc = nn.Linear(4, 2)

    def forward(self, image):
        x = torch.relu(self.norm(self.conv(image)))
        return self.fc(x.mean([2, 3]))


class FixedConv(nn.Module):
    """Takes images of 28 by 28 only."""

    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(1, 2, 5, stride=4)
        self.fc = nn.Linear(72, 3)

    def forward(self, image):
        return self.fc(torch.relu(self.conv(image)).flatten(1))


class Words(nn.Module):
    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(10, 4)
        self.fc = nn.Linear(4, 2)

    def forward(self, ids):
        return self.fc(self.table(ids).mean(1))


class Recurrent(nn.Module):
    """The first dimension is time."""

    def __init__(self):
        super().__init__()
        self.lstm = nn.LSTM(6, 4)

    def forward(self, x):
        return self.lstm(x)


class Steps(nn.Module):
    """Its rows are steps in time, each of which depends on those before it."""

    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(3, 2)

    def forward(self, x):
        return torch.cumsum(self.fc(x), 0)


class SumDifference(nn.Module):
    def forward(self, a, b):
        return a + b, a - b


class TwoLayers(nn.Module):
    """Two inputs of different widths."""

    def __init__(self):
        super().__init__()
        self.left = nn.Linear(4, 2)
        self.right = nn.Linear(6, 2)

    def forward(self, wide, narrow):
        return self.left(narrow) + self.right(wide)


class DictInOut(nn.Module):
    def forward(self, given: typing.Dict[str, torch.Tensor]) -> typing.Dict[str, torch.Tensor]:
        return {"sum": given["left"] + given["right"], "left": given["left"]}


class ListOut(nn.Module):
    def forward(self, x) -> typing.List[torch.Tensor]:
        return [x, x * 2, x * 3]


Range = typing.NamedTuple("Range", [("low", torch.Tensor), ("high", torch.Tensor)])


class Named(nn.Module):
    def forward(self, x) -> Range:
        return Range(x.amin(1), x.amax(1))


class Nested(nn.Module):
    def forward(self, x) -> typing.Tuple[torch.Tensor, typing.Tuple[torch.Tensor, int]]:
        return x + 1, (x.sum(1), 7)


class Lengths(nn.Module):
    def forward(self, texts: typing.List[str]):
        return torch.tensor([len(text) for text in texts])


class Echo(nn.Module):
    def forward(self, texts: typing.List[str]) -> typing.List[str]:
        return [text + "!" for text in texts]


class Total(nn.Module):
    def forward(self, x):
        return x.sum()


class Identity(nn.Module):
    def forward(self, x):
        return x


class Transposed(nn.Module):
    def forward(self, x):
        return x.t()


class InPlace(nn.Module):
    """Writes to its input, by way of a view."""

    def forward(self, x):
        row = x[0]
        row.add_(100)
        return x * 1


class InPlaceDict(nn.Module):
    def forward(self, given: typing.Dict[str, torch.Tensor]):
        given["x"].mul_(2)
        return given["x"] + 0


class Counter(nn.Module):
    """Has state: counts its runs, and keeps its last input."""

    runs: int
    last: torch.Tensor

    def __init__(self):
        super().__init__()
        self.runs = 0
        self.last = torch.zeros(1)

    def forward(self, x):
        self.runs += 1
        last = self.last
        self.last = x
        return x + self.runs, last


class Accumulator(nn.Module):
    """Has state in a buffer, and returns it."""

    def __init__(self):
        super().__init__()
        self.register_buffer("total", torch.zeros(4))

    def forward(self, x):
        self.total.add_(x.sum(0))
        return self.total


class Plain(nn.Module):
    """Has state in a tensor that is no buffer: tracing writes that into the graph. Answers what it has stored there."""

    def __init__(self):
        super().__init__()
        self.stored = torch.zeros(256)

    def forward(self, x):
        self.stored.mul_(0)
        self.stored.add_(x[0])
        for _ in range(200):
            self.stored.mul_(1)
        return x * 0 + self.stored


class PlainReturned(nn.Module):
    """The same, returned as it is, and too large to be copied for its size."""

    def __init__(self):
        super().__init__()
        self.stored = torch.zeros(64 * 256)

    def forward(self, x):
        self.stored.copy_(x[0].repeat(64))
        return self.stored


class PlainLate(nn.Module):
    """The same, written after the last use in a run."""

    def __init__(self):
        super().__init__()
        self.runs = torch.zeros(1)

    def forward(self, x):
        y = x + self.runs
        self.runs.add_(1)
        return y


class Statistics(nn.Module):
    """Updates statistics by an operator whose schema does not say so."""

    def __init__(self):
        super().__init__()
        self.register_buffer("mean", torch.zeros(4))
        self.register_buffer("var", torch.ones(4))

    def forward(self, x):
        y = torch.native_batch_norm(x, None, None, self.mean, self.var, True, 0.5, 1e-5)[0]
        return y * 0 + self.mean


class Deep(nn.Module):
    """Has state, and a graph in which each node needs the one before it."""

    def __init__(self):
        super().__init__()
        self.register_buffer("runs", torch.zeros(1))

    def forward(self, x):
        self.runs.add_(1)
        for _ in range(6000):
            x = torch.neg(torch.relu(x))
        return x * 0 + self.runs


class Picky(nn.Module):
    """Does not take zeros."""

    def forward(self, x):
        if bool((x == 0).all()):
            raise ValueError("all of it is zero")
        return x / x.sum()


class Optional(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(3, 2)

    def forward(self, x, bias: typing.Optional[torch.Tensor] = None, scale: float = 2.0):
        y = self.fc(x) * scale
        if bias is not None:
            y = y + bias
        return y


class Tanh(nn.Module):
    def forward(self, x):
        return torch.tanh(x)


class Complex(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(4, 4)

    def forward(self, x):
        return torch.fft.fft(self.fc(x))


class NeedsNumber(nn.Module):
    def forward(self, x, power: int):
        return x ** power


class Scaled(nn.Module):
    """Takes numbers, one of which has a default."""

    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(4, 2)

    def forward(self, x, times: int, offset: float, negated: bool = False):
        y = self.fc(x) * times + offset
        return -y if negated else y


class NeedsSizes(nn.Module):
    def forward(self, x, sizes: typing.List[int]):
        return x.reshape(sizes)


class Constant(nn.Module):
    """Returns its own weights."""

    def __init__(self):
        super().__init__()
        self.table = nn.Parameter(torch.zeros(300, 4))

    def forward(self, x):
        return self.table, x @ self.table.t()


class Flat(nn.Module):
    """Its output's first dimension varies, but is no batch."""

    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(3, 2)

    def forward(self, x):
        return self.fc(x).reshape(-1)


class Custom(nn.Module):
    def forward(self, x):
        return torch.ops.mine.twice(x)


class Huge(nn.Module):
    def forward(self, x):
        return torch.ones([x.size(0), 1 << 45])


class Dropped(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(4, 4)
        self.drop = nn.Dropout(0.5)

    def forward(self, x):
        return self.drop(self.fc(x))


def with_result(call):
    """The code of identity.pt, which gives back what that call does."""
    with zipfile.ZipFile(os.path.join(HERE, "identity.pt")) as archive:
        return archive.read("identity/code/__torch__.py").replace(b"return x\n", f"return {call}\n".encode())


def others():
    torch.save(filled(Mlp()).state_dict(), os.path.join(HERE, "state_dict.pt"))
    torch.save(filled(Mlp()).state_dict(), os.path.join(HERE, "legacy.pt"), _use_new_zipfile_serialization=False)
    torch.save(filled(Mlp()), os.path.join(HERE, "pickled.pt"))
    exported = torch.export.export(filled(Tanh()), (torch.zeros(2, 3),))
    torch.export.save(exported, os.path.join(HERE, "exported.pt2"))
    # What is in it names the folder that it was made in, and is of no use here.
    rewrite("exported.pt2", "exported.pt2", lambda name: True, {"model.json": b"{}"})
    whole = open(os.path.join(HERE, "mlp.pt"), "rb").read()
    open(os.path.join(HERE, "cut.pt"), "wb").write(whole[: len(whole) // 2])
    rewrite("mlp.pt", "newer.pt", lambda name: True, {"version": b"99\n"})
    # Neither is what Python's compiler makes: they name files of the system's where a constant would do.
    for name, call in (
        ("reads_file", 'torch.from_file("/etc/passwd", False, 4, dtype=0)'),
        ("writes_file", 'torch.from_file("/var/tmp/muster-torchscript", True, 4, dtype=0)'),
    ):
        rewrite("identity.pt", name + ".pt", lambda name: True, {"__torch__.py": with_result(call)})


class TimeMajor(nn.Module):
    """Takes [steps, rows], as a transformer does that is not told otherwise."""

    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(10, 4)
        self.encoder = nn.TransformerEncoder(nn.TransformerEncoderLayer(4, 2, 8), 1)

    def forward(self, ids):
        return self.encoder(self.table(ids))


class Centred(nn.Module):
    """Takes the mean of all rows from each."""

    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(10, 4)

    def forward(self, ids):
        rows = self.table(ids).mean(1)
        return rows - rows.mean(0)


class Sorted(nn.Module):
    """Sorts the rows."""

    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(10, 4)

    def forward(self, ids):
        return self.table(ids.sort(0)[0])


class OneWord(nn.Module):
    """Has a table of one row, so that zero is the only number that it takes."""

    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(1, 4)

    def forward(self, ids):
        return self.table(ids)


class Normed(nn.Module):
    """In training mode it refuses a single row."""

    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(4, 4)
        self.norm = nn.BatchNorm1d(4)

    def forward(self, x):
        return self.norm(self.fc(x))


class Positive(nn.Module):
    """Answers for the rows alone whose sum is not negative."""

    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(4, 2)

    def forward(self, x):
        return self.fc(x)[(x.sum(1) >= 0).nonzero().squeeze(1)]


class Pieces(nn.Module):
    """Returns as many tensors as there are rows."""

    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(4, 2)

    def forward(self, x):
        return list(self.fc(x).unbind(0))


class WithNone(nn.Module):
    """One of its outputs is none."""

    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(4, 2)

    def forward(self, x) -> typing.Tuple[torch.Tensor, typing.Optional[torch.Tensor]]:
        return self.fc(x), None


def main():
    save("mlp", Mlp(), ramp(4, 5))
    save("mlp_traced", Mlp(), ramp(4, 5), trace=True)
    save("conv", Conv(), ramp(2, 3, 8, 8))
    save("conv_train", Conv(), train=True)
    save("conv_fixed", FixedConv(), ramp(2, 1, 28, 28))
    save("words", Words(), torch.tensor([[1, 2, 3], [0, 9, 9]]))
    save("recurrent", Recurrent())
    save("steps", Steps(), ramp(4, 3))
    save("sum_difference", SumDifference(), ramp(2, 3), ramp(2, 3) * 2)
    save("two_layers", TwoLayers(), ramp(2, 6), ramp(2, 4))
    save("dict", DictInOut())
    save("list", ListOut(), ramp(2, 2))
    save("named", Named(), ramp(3, 4))
    save("nested", Nested())
    save("lengths", Lengths())
    save("echo", Echo())
    save("total", Total(), ramp(2, 3))
    save("identity", Identity())
    save("transposed", Transposed(), ramp(2, 3))
    save("in_place", InPlace(), ramp(2, 3))
    save("in_place_dict", InPlaceDict())
    save("counter", Counter())
    save("accumulator", Accumulator())
    save("plain", Plain(), torch.ones(1, 256), trace=True)
    save("plain_returned", PlainReturned(), torch.ones(1, 256), trace=True)
    save("plain_late", PlainLate(), torch.ones(2, 3), trace=True)
    save("statistics", Statistics())
    save("deep", Deep(), torch.ones(1, 2), trace=True)
    rewrite("deep.pt", "deep.pt", lambda name: True, {}, zipfile.ZIP_DEFLATED)
    save("picky", Picky(), ramp(2, 3))
    save("optional", Optional(), ramp(2, 3))
    save("tanh", Tanh(), ramp(2, 3))
    save("complex", Complex())
    save("number", NeedsNumber())
    save("scaled", Scaled())
    save("sizes", NeedsSizes())
    save("constant", Constant())
    save("flat", Flat(), ramp(2, 3))
    save("huge", Huge())
    save("dropped", Dropped(), train=True)
    save("time_major", TimeMajor())
    save("centred", Centred())
    save("sorted", Sorted())
    save("one_word", OneWord())
    save("normed_train", Normed(), train=True)
    save("positive", Positive())
    save("pieces", Pieces())
    save("with_none", WithNone())
    for dtype in (torch.float16, torch.bfloat16, torch.float64):
        save("mlp_" + str(dtype).split(".")[1], Mlp(dtype), ramp(4, 5, dtype=dtype))
    library = torch.library.Library("mine", "DEF")
    library.define("twice(Tensor x) -> Tensor")
    save("custom", Custom())
    others()
    with open(os.path.join(HERE, "expected.json"), "w") as file:
        # A line for each model.
        lines = (f"{json.dumps(name)}: {json.dumps(record)}" for name, record in EXPECTED.items())
        file.write("{\n" + ",\n".join(lines) + "\n}\n")


if __name__ == "__main__":
    main()
