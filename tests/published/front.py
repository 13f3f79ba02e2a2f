"""A graph of many small operators behind a front that has one request at a time, and behind muster with as many
instances and threads: what workers and threads are worth on either."""

import shutil

from bench import cpu_per_request
from cases import JSON, case
from peers import ANSWERS_ALL, PEERS, Settings
from processes import environment, free_port
from serving import Endpoint, Muster, bench, check_answered, say, table

# Workers and threads of a run here; the tuple of the article in whose place they are, and what that is worth there:
# Gunicorn's workers, TensorFlow Serving's processes, threads of OpenMP, between and within operators.
ROWS = (
    ((1, 36), "(1, 1, 36, 36, 36)", "1.00"),
    ((1, 2), "–", "–"),
    ((1, 1), "(1, 1, 1, 1, 1)", "2.08"),
    ((2, 1), "(36, 8, 1, 1, 1)", "20.11"),
)
CONNECTIONS = (16, 1)


def front(given):
    """Gunicorn and muster in turns, each with as many workers (instances) and threads of ONNX Runtime."""
    peer = next(it for it in PEERS if it.name == "Gunicorn")
    programs = environment(given.work / "environments/gunicorn", peer.folder / "requirements.txt", say)
    model = case("retrieval")
    body = given.work / "retrieval.json"
    body.write_bytes(JSON.body(model)[0])
    pairs, block = (3, 0.3) if given.quick else (12, 0.5)
    rows = []
    base = {}
    for (workers, threads), place, worth in ROWS:
        say(f"{workers} workers of {threads} threads")
        settings = Settings(workers, threads, tuned=True)
        with gunicorn(given, peer, programs, model, settings) as one, muster(given, model, settings) as other:
            for server, protocol in ((one, JSON), (other, JSON.at_muster())):
                problem = protocol.problem(model, server.port if server is one else server.http_port)
                if problem:
                    raise SystemExit(f"{server.log}: {problem}")
            for connections in CONNECTIONS:
                path = JSON.muster_path.format(model=model.name)
                found = bench(
                    given, f"http://127.0.0.1:{one.port}{JSON.path}", "--vs", other.url + path, "--body", body,
                    "--connections", connections, "--pairs", pairs, "--duration", block, "--warm-up", block / 4,
                    "--pid", one.pid, "--vs-pid", other.pid, "--most-steal", 100)
                for name, blocks in (("Gunicorn", "blocks_a"), ("muster", "blocks_b")):
                    check_answered(f"{name}, {workers} × {threads}, {connections} connections", found[blocks])
                rates = [found[it]["throughput"] for it in ("typical_a", "typical_b")]
                first = base.setdefault(connections, rates)
                rows.append([
                    f"{workers} × {threads}", connections, *(f"{it:.0f}" for it in rates),
                    *(f"{rate / start:.2f}" for rate, start in zip(rates, first)), place, worth,
                    *(f"{found[it]['p99_us'] / 1e3:.1f}" for it in ("typical_a", "typical_b")),
                    *(f"{cpu_per_request(found[it]):.0f}" for it in ("blocks_a", "blocks_b")),
                    "{median:.1f} ({low:.1f}–{high:.1f})".format(**found["throughput"])])
    print(f"{pairs} pairs of blocks of {block} s for each row; a body of {body.stat().st_size} bytes.\n")
    table(
        ["workers × threads", "connections>", "Gunicorn: requests/s>", "muster>", "Gunicorn: × first row>", "muster>",
         "published", "× first row>", "Gunicorn: p99 ms>", "muster>", "Gunicorn: CPU µs>", "muster>",
         "muster / Gunicorn: requests/s>"], rows)


def gunicorn(given, peer, programs, model, settings):
    """Flask behind it."""
    port = free_port()
    variables = peer.environment(programs, model, settings, [port, 0, 0])
    return Endpoint(peer.command(programs, settings, port), given.work / "gunicorn.log", port, variables=variables)


def muster(given, model, settings):
    """The model with an instance for each worker. It refuses nothing for its wait, as Gunicorn does not."""
    repository = given.work / "repositories/front"
    shutil.rmtree(repository, ignore_errors=True)
    folder = repository / model.name
    (folder / "1").mkdir(parents=True)
    shutil.copyfile(model.file, folder / "1/model.onnx")
    (folder / "config.pbtxt").write_text(
        f"instance_group [ {{ count: {settings.workers} }} ]\n"
        f'parameters {{ key: "intra_op_thread_count" value: {{ string_value: "{settings.threads}" }} }}\n')
    return Muster(given, "--model-repository", repository, *ANSWERS_ALL)

