#!/usr/bin/env python3
"""Records the terminal of the README, as an animated picture, of what the program really prints.

    docs/pictures/record.py --muster target/release/muster      writes docs/pictures/terminal.svg

A server starts in a pseudo-terminal of 96 columns, and the commands of `ASKED` ask it. The ports are the standard ones,
which must be free.
"""

import argparse
import html
import os
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import termios
import time
import fcntl
import urllib.request
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
COLUMNS, ROWS = 96, 40
SERVED = "muster serve model_repository/sentiment"
ASKED = [
    """curl -s localhost:8080/invocations -d '{"inputs": "I am super happy right now."}'""",
    """curl -s localhost:8002/metrics | grep '^nv_inference_request_success'""",
]
# Select Graphic Rendition, ECMA-48: the colours of a terminal, as they are readable on the dark ground.
COLOURS = {"31": "#ff7b72", "32": "#7ee787", "33": "#e3b341", "34": "#79c0ff", "35": "#d2a8ff", "36": "#76e3ea", "90": "#8b949e"}
GROUND, TEXT, FAINT = "#0d1117", "#e6edf3", "#8b949e"
# The picture has what the program says to a person, and not the lines of its log.
LOGGED = re.compile(r"(\x1b\[[0-9;]*m)*\d{4}-\d\d-\d\dT")
LEFT, TOP, LINE, WIDTH = 16, 44, 19, 7.85


def main():
    """Runs the commands, and writes the picture."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--muster", type=Path, default=ROOT / "target/release/muster", help="the program")
    options = parser.parse_args()
    begun = time.monotonic()
    server, terminal = start([options.muster.resolve(), *SERVED.split()[1:]])
    try:
        shown = [(0.0, prompt(SERVED))]
        printed = read_until_ready(server, terminal)
        shown += [(time.monotonic() - begun, it) for it in lines_of(printed)]
        moment = shown[-1][0] + 1.2
        for command in ASKED:
            answer = subprocess.run(command, shell=True, cwd=ROOT, capture_output=True, text=True, check=True).stdout
            shown += [(moment, ""), (moment, prompt(command))]
            shown += [(moment + 0.4, html.escape(part)) for part in folded(answer.rstrip())]
            moment += 1.6
    finally:
        server.send_signal(signal.SIGTERM)
        server.wait()
    (HERE / "terminal.svg").write_text(picture(shown))
    print(f"{len(shown)} lines")


def start(command):
    """The program on a terminal of its own, and the other end of that terminal."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
    environment = {**os.environ, "TERM": "xterm-256color", "MUSTER_HTTP_ADDRESS": "127.0.0.1"}
    process = subprocess.Popen(command, cwd=ROOT, stdin=theirs, stdout=theirs, stderr=theirs, env=environment)
    os.close(theirs)
    return process, ours


def read_until_ready(process, terminal):
    """What the program writes until it is ready and silent."""
    printed = b""
    for _ in range(600):
        while select.select([terminal], [], [], 0.3)[0]:
            try:
                printed += os.read(terminal, 65536)
            except OSError:
                # The program has ended, and with it the other end of the terminal.
                break
        if process.poll() is not None:
            sys.exit(printed.decode())
        if is_ready():
            return printed.decode()
    sys.exit("the server did not become ready")


def is_ready():
    """Whether the server answers."""
    try:
        return urllib.request.urlopen("http://127.0.0.1:8000/v2/health/ready", timeout=1).status == 200
    except OSError:
        return False


def lines_of(printed):
    """Lines as elements of SVG. What a carriage return has written over is not there any more."""
    lines = [it.rstrip("\r").split("\r")[-1] for it in printed.replace("\x1b[2K", "").split("\n")]
    lines = [it for it in lines if not LOGGED.match(it)]
    while lines and not lines[-1].strip():
        lines.pop()
    return [coloured(it) for it in lines]


def coloured(line):
    """The text of a line, each colour an element of its own."""
    made, classes = "", []
    for part in re.split(r"(\x1b\[[0-9;?]*[A-Za-z])", line):
        if not part.startswith("\x1b"):
            style = ";".join(classes)
            made += f'<tspan style="{style}">{html.escape(part)}</tspan>' if style else html.escape(part)
        elif part.endswith("m"):
            for code in part[2:-1].split(";"):
                if code in COLOURS:
                    classes.append(f"fill:{COLOURS[code]}")
                elif code == "1":
                    classes.append("font-weight:bold")
                elif code == "2":
                    classes.append(f"fill:{FAINT}")
                elif code in ("", "0", "39", "22"):
                    classes = []
    return made


def prompt(command):
    """A command behind its prompt."""
    return f'<tspan style="fill:{COLOURS["32"]}">$</tspan> {html.escape(command)}'


def folded(text):
    """Lines that a terminal would break."""
    for line in text.splitlines():
        yield from (line[at:at + COLUMNS] for at in range(0, max(len(line), 1), COLUMNS))


def picture(shown):
    """The lines with the moments at which they come, in seconds, as SVG."""
    height, width = TOP + LINE * len(shown) + 12, LEFT * 2 + COLUMNS * WIDTH
    lines = "\n".join(
        f'<text x="{LEFT}" y="{TOP + LINE * row + 12}" style="animation-delay:{moment:.2f}s">{text}</text>'
        for row, (moment, text) in enumerate(shown)
        if text
    )
    return f"""<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height}" width="{width:.0f}" height="{height}" role="img">
<title>A terminal: {html.escape(SERVED)}, and curl asks it</title>
<style>
text {{ font: 13px ui-monospace, SFMono-Regular, Menlo, Consolas, monospace; fill: {TEXT}; white-space: pre; }}
@media (prefers-reduced-motion: no-preference) {{
  text {{ opacity: 0; animation: come 0.01s linear forwards; }}
  @keyframes come {{ to {{ opacity: 1; }} }}
}}
</style>
<rect width="100%" height="100%" rx="8" fill="{GROUND}"/>
<circle cx="20" cy="20" r="6" fill="#ff5f56"/><circle cx="40" cy="20" r="6" fill="#ffbd2e"/><circle cx="60" cy="20" r="6" fill="#27c93f"/>
{lines}
</svg>
"""


if __name__ == "__main__":
    main()
