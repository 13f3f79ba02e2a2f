"""Measures a server with Triton's perf_analyzer, over HTTP and gRPC, by concurrency and by request rate: what counts
here is that it finds everything that it looks for and sees no error.

Usage: perf_analyzer.py HTTP_HOST:PORT GRPC_HOST:PORT METRICS_URL      of a server with the model fraud.

The program comes with older wheels of tritonclient. It is linked to the CUDA runtime, which comes as a wheel as well,
and to libb64, which does not: it is used only for handles of CUDA shared memory, so that a library of that name whose
functions end the program stands in for it.
"""

import csv
import glob
import os
import subprocess
import sys
import sysconfig
import tempfile

LIBB64 = """
#include <stdlib.h>
void base64_init_encodestate(void *state) { abort(); }
int base64_encode_block(const char *in, int length, char *out, void *state) { abort(); }
int base64_encode_blockend(char *out, void *state) { abort(); }
void base64_init_decodestate(void *state) { abort(); }
int base64_decode_block(const char *in, int length, char *out, void *state) { abort(); }
"""


def libraries(folder):
    """The folders in which the program finds its libraries."""
    source = os.path.join(folder, "b64.c")
    with open(source, "w") as file:
        file.write(LIBB64)
    name = "libb64.so.0d"
    subprocess.run(["cc", "-shared", "-fPIC", f"-Wl,-soname,{name}", "-o", os.path.join(folder, name), source],
                   check=True)
    runtime = glob.glob(os.path.join(sysconfig.get_path("purelib"), "nvidia/cuda_runtime/lib"))
    return ":".join([folder, *runtime])


def measure(folder, *arguments):
    """The lines of the report; each is one load."""
    report = os.path.join(folder, "report.csv")
    program = os.path.join(os.path.dirname(sys.executable), "perf_analyzer")
    # Short windows that need not agree, and many of them should the machine be busy: this is no measurement.
    command = [program, "-m", "fraud", "--service-kind", "triton", "-p", "300", "-r", "20", "-s", "999", "-f", report,
               "--collect-metrics", *arguments]
    environment = {**os.environ, "LD_LIBRARY_PATH": libraries(folder)}
    done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    assert done.returncode == 0, done.stdout
    assert "error" not in done.stdout.lower() and "fail" not in done.stdout.lower(), done.stdout
    with open(report) as file:
        return list(csv.DictReader(file))


def main():
    http, grpc, metrics = sys.argv[1:4]
    metrics = ["--metrics-url", metrics]
    protocols = {"http": ["-i", "http", "-u", http], "grpc": ["-i", "grpc", "-u", grpc],
                 "grpc stream": ["-i", "grpc", "-u", grpc, "--streaming", "--async"]}
    loads = {"concurrency": ["--concurrency-range", "1:4:3"], "request rate": ["--request-rate-range", "200:400:200"]}
    with tempfile.TemporaryDirectory() as folder:
        for protocol, reach in protocols.items():
            for load, amount in loads.items():
                lines = measure(folder, *reach, *amount, *metrics)
                assert len(lines) == 2, lines
                for line in lines:
                    assert float(line["Inferences/Second"]) > 0, line
                    # These come from the server's statistics.
                    assert float(line["Server Compute Infer"]) > 0, line
                print(protocol, load, "passed:", [line["Inferences/Second"] for line in lines])


if __name__ == "__main__":
    main()
