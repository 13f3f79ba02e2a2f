"""Calls `muster bench` and reads its JSON."""

import json
import time

from processes import Unavailable, finished, last_line


class Bench:
    """The load generator of a program, with the lengths of its runs."""

    def __init__(self, muster, folder, pairs, block):
        self.muster = muster
        self.folder = folder
        self.pairs = pairs
        self.block = block

    def load(self, case, protocol, connections):
        """The arguments that say what is sent."""
        arguments = ["--connections", connections]
        if protocol.name == "json":
            body = self.folder / f"{case.name}.json"
            body.write_bytes(protocol.body(case)[0])
            return arguments + ["--body", body]
        dims = ",".join(map(str, case.shape))
        arguments += ["--model", case.name, "--input", f"{case.input}:{case.datatype}:{dims}"]
        if case.datatype != "FP32":
            # Whole numbers are rows of tables: none may be larger than one that is known to be there.
            arguments += ["--value", f"{case.input}=0..{max(case.values)}"]
        return arguments + ["--format", protocol.name.lower().replace(" ", "-")]

    def run(self, arguments):
        """The report of a run; `Unavailable` with the last line of what it says where there is none."""
        command = [str(it) for it in [self.muster, "bench", *arguments, "--json", "--timeout", 10]]
        done = finished(command)
        if not done.stdout:
            raise Unavailable(f"muster bench: {last_line(done)}")
        return json.loads(done.stdout)

    def alone(self, case, protocol, connections, server, url, seconds):
        """The report of one server by itself."""
        arguments = [url, *self.load(case, protocol, connections)]
        return self.run(arguments + ["--duration", seconds, "--warm-up", 0.3, "--pid", server.pid])

    def compare(self, case, protocol, connections, peer, muster):
        """The comparison of two servers, each a pair of an address and a process: ratios are those of
        muster over the peer."""
        (peer_url, peer_server), (muster_url, muster_server) = peer, muster
        arguments = [peer_url, "--vs", muster_url, *self.load(case, protocol, connections)]
        arguments += ["--pid", peer_server.pid, "--vs-pid", muster_server.pid]
        arguments += ["--pairs", self.pairs, "--duration", self.block, "--warm-up", self.block / 4]
        # On a busy host a stricter bound leaves nothing of a short comparison.
        arguments += ["--most-steal", 5]
        try:
            return self.run(arguments)
        except Unavailable:
            # Once more: time may have been stolen from every pair.
            time.sleep(1)
            return self.run(arguments)


def failed(blocks):
    """The share of requests without a 2xx reply; all where there were none. Of one short block nothing
    can be said: a server that stands still is sent nothing."""
    requests = sum(it["requests"] for it in blocks)
    return 1 - sum(it["ok"] for it in blocks) / requests if requests else 1.0


def cpu_per_request(blocks):
    """Microseconds of processor time per reply over several blocks: their steps of 10 ms are too coarse
    for each of them alone."""
    replies = sum(sum(it["statuses"].values()) for it in blocks)
    return 1e6 * sum(it["server"]["cpu_s"] for it in blocks) / max(replies, 1)
