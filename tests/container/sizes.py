"""What models of texts, images and sounds add to a program for whom they are of no use: bytes, and nothing to the start.
Needs no engine for containers, but `nm` and `strip`."""

import re
import shutil
import socket
import subprocess
import time
import zlib

from engine import Failed
from facts import expect, moment

# Crates that came with such models. A function is theirs where its name has one of them, its types included.
CRATES = """backend_steps backend_image backend_audio tokenizers fancy_regex spm_precompiled unicode_normalization_alignments
    unicode_segmentation unicode_categories derive_builder esaxx_rs dary_heap compact_str macro_rules_attribute monostate
    rayon rayon_core rayon_cond zune_jpeg zune_core image_webp png gif tiff weezl fdeflate safetensors extended
    symphonia_core symphonia_metadata symphonia_common symphonia_bundle_mp3 symphonia_bundle_flac symphonia_codec_vorbis
    symphonia_format_ogg""".split()
# Parts of the server that are for them alone.
MODULES = ["pipeline", "pipelines", "openai", "tei", "rerank", "hub", "infinity", "prepare"]
OURS = re.compile(rf"\b(?:{'|'.join(CRATES)})\b|\bmuster_\w+(?:\[\w+\])?::(?:\w+::)*(?:{'|'.join(MODULES)})::")
# MB of the program, and compressed MB of the image, of which libturbojpeg is a part.
PROGRAM, IMAGE_COMPRESSED, JPEG_COMPRESSED = 7, 4, 0.2
# Starts of each kind, in turns, and the seconds by which the quickest of them differ without a cause.
STARTS, NOISE = 15, 0.005
ON, OFF = "--pipelines=auto", "--pipelines=off"


def size(program, models):
    """Bytes of the program without symbols that are there for such models."""
    names = subprocess.run(["nm", "-S", "-C", str(program)], capture_output=True, text=True, check=True, errors="replace")
    found = re.finditer(r"^[0-9a-f]+ ([0-9a-f]+) \w (.+)$", names.stdout, re.MULTILINE)
    sizes = [(int(it[1], 16), it[2]) for it in found]
    expect(sizes, f"{program} has no symbols to tell its parts by")
    whole = sum(it for it, _ in sizes)
    share = sum(it for it, name in sizes if OURS.search(name)) / whole
    copy = models.folder / "program"
    shutil.copy(program, copy)
    subprocess.run(["strip", str(copy)], check=True)
    # Tables of constants and of unwinding have no names: they are taken to belong to all code alike.
    megabytes, packed = copy.stat().st_size / 1e6, len(zlib.compress(copy.read_bytes(), 6)) / 1e6
    added, compressed = megabytes * share, packed * share + JPEG_COMPRESSED
    text = (
        f"{added:.1f} of {megabytes:.1f} MB, at most {PROGRAM}; "
        f"of an image compressed {compressed:.1f} MB, at most {IMAGE_COMPRESSED}"
    )
    expect(added <= PROGRAM and compressed <= IMAGE_COMPRESSED, text)
    return text


def start(program, models):
    """Times from the first line of the log to the last of the start, over a model that takes tensors."""
    models.mount("single")
    measured = {ON: [], OFF: []}
    for _ in range(STARTS):
        for turn, times in measured.items():
            times.append(started(program, models.folder / "single", turn))
    on, off = min(measured[ON]), min(measured[OFF])
    text = f"{on * 1000:.1f} ms, with {OFF} {off * 1000:.1f} ms"
    expect(on - off <= NOISE, text)
    return text


def started(program, repository, turn):
    """Seconds of one start."""
    command = [str(program), "--model-repository", str(repository), turn]
    command += [f"--{name}-port={free_port()}" for name in ("http", "grpc", "sagemaker", "metrics")]
    first, until = None, time.monotonic() + 30
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        try:
            for line in process.stdout:
                first = first or (line if "muster is starting" in line else None)
                if first and "ready to serve" in line:
                    return moment(line.split()[0]) - moment(first.split()[0])
                if until < time.monotonic():
                    break
        finally:
            process.kill()
    raise Failed("it was not ready within 30 s")


def free_port():
    """A port that nothing listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


FACTS = [
    ("models of texts, images and sounds make the program no larger than they may", size),
    ("the start of a model that takes tensors is as quick as without models of texts, images and sounds", start),
]
