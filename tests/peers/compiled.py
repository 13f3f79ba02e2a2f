"""The table of one detector in several forms: as exported, optimised, from the cache, with other numbers."""

import json
from dataclasses import dataclass
from statistics import median

from bench import Bench
from images import answer, files, repository, start_muster, url
from processes import Unavailable, finished

START_LIMIT = 60
# Times that each form has its turn.
ROUNDS = 5
AS_EXPORTED = "optimization { graph { level: 2 } }\n"


@dataclass(frozen=True)
class Form:
    """A file, how it is loaded, and the type of its input."""

    name: str
    file: str
    config: str = ""
    is_cached: bool = False
    dtype: str = "FP32"


FORMS = (
    Form("as exported", "detector", AS_EXPORTED),
    Form("optimised at load", "detector"),
    Form("from the cache on disk", "detector", is_cached=True),
    Form("FP16", "detector-fp16", dtype="FP16"),
    Form("int8", "detector-int8"),
)


class CompiledTable:
    """What each form takes, with the JPEG step and without it."""

    def __init__(self, options, say):
        self.options, self.say = options, say
        self.bench = Bench(options.muster, options.work, options.pairs, options.block)
        self.files, _ = files(options, say)
        self.photo = self.files / "photo.jpg"
        self.notes = []

    def measure(self):
        """The Markdown of the table."""
        servers, loads, found = {}, {}, {}
        try:
            for form in FORMS:
                for said in (True, False):
                    self.say(f"{form.name}, {'JPEG' if said else 'tensor'}")
                    servers[form, said], loads[form, said] = self.start(form, said)
            counts = {form: len(answer(servers[form, True].port, self.photo.read_bytes())) for form in FORMS}
            for turn in range(ROUNDS):
                self.say(f"round {turn + 1} of {ROUNDS}")
                for key in list(servers)[:: -1 if turn % 2 else 1]:
                    found.setdefault(key, []).append(self.block(*key, servers[key]))
        finally:
            for server in servers.values():
                server.__exit__()
        lines = ["| Form | Way | load ms | mean ms | p50 ms | p95 ms | server CPU ms | as exported / this | boxes |"]
        lines.append("|---|---|--:|--:|--:|--:|--:|--:|--:|")
        for key, reports in found.items():
            form, said = key
            mean, p50, p95, cpu = (median(it[at] for it in reports) for at in range(4))
            # Processor time: others on the machine change it less than the clock.
            share = median(base[3] / it[3] for base, it in zip(found[FORMS[0], said], reports))
            way, boxes = ("JPEG", counts[form]) if said else ("tensor", "–")
            lines.append(
                f"| {form.name} | {way} | {loads[key]} | {mean:.0f} | {p50:.0f} | {p95:.0f} | {cpu:.0f} | "
                f"{share:.2f} × | {boxes} |"
            )
        return "\n".join(lines) + "\n\n" + "\n".join(f"- {it}" for it in self.notes) + "\n"

    def start(self, form, said):
        """A server that has answered, and how long it took to load the model."""
        file = self.files / f"{form.file}{'' if said else '-plain'}.onnx"
        place = repository(self.options.work / "repositories", form.name.replace(" ", "-"), file, said)
        if form.config:
            (place / "detector/config.pbtxt").write_text(form.config)
        log = f"muster-{form.name.replace(' ', '-')}-{said}.log"
        flags = []
        if form.is_cached:
            flags = [f"--model-cache-dir={place.parent / 'cache'}"]
            # The first start fills it.
            with start_muster(self.options, place, log, *flags) as first:
                self.ready(form, said, first)
        server = start_muster(self.options, place, log, *flags)
        self.ready(form, said, server)
        return server, load_ms(self.options.work / log)

    def ready(self, form, said, server):
        """Waits for a first answer."""

        def problem():
            self.run(form, said, server, ["--requests", 1])

        try:
            server.wait_until_right(problem, START_LIMIT)
        except Unavailable:
            server.__exit__()
            raise

    def run(self, form, said, server, length):
        """A report; an error where a request was refused."""
        load = ["--format", "image", "--files", self.photo]
        if not said:
            load = ["--format", "kserve-binary", "--model", "detector", "--input", f"images:{form.dtype}:1,3,640,640"]
        command = [url(server.port), *load, "--connections", 1, *length, "--pid", server.pid]
        done = finished([str(it) for it in [self.options.muster, "bench", *command, "--json"]])
        report = json.loads(done.stdout or "{}")
        if not report.get("ok") or report["ok"] < report["requests"]:
            raise ValueError(done.stderr.strip() or str(report.get("refusals")))
        return report

    def block(self, form, said, server):
        """Mean, median, 95th percentile and processor time in milliseconds."""
        report = self.run(form, said, server, ["--duration", 8 * self.options.block, "--warm-up", 0.3])
        latency = report["latency"]
        times = [latency[it] / 1e3 for it in ("mean_us", "p50_us", "p95_us")]
        return *times, report["server"]["cpu_per_request_us"] / 1e3


def load_ms(log):
    """How long loading took, as the log says."""
    for line in log.read_text().splitlines():
        said = json.loads(line)
        if said.get("message") == "model is ready":
            return said["load_ms"]
    return "–"
