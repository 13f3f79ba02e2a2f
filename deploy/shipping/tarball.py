"""The tarball, and the list of digests beside the packages."""

import gzip
import hashlib
import io
import tarfile
from dataclasses import dataclass

SUMS = "SHA256SUMS"


@dataclass(frozen=True)
class Terms:
    """What a tarball is made by. `seconds`: the time of all files."""

    version: str
    machine: str
    seconds: int
    level: int


def write(folder, stage, terms):
    """Makes the tarball of what lies in `stage`: programs/, lib/, licenses/, muster.cdx.json."""
    name, seconds = f"muster-{terms.version}-linux-{terms.machine}", terms.seconds
    files = {it.name: it for it in (stage / "programs").iterdir()}
    for part in ("lib", "licenses"):
        files |= {str(it.relative_to(stage)): it for it in (stage / part).rglob("*") if it.is_file()}
    files["muster.cdx.json"] = stage / "muster.cdx.json"
    path = folder / f"{name}.tar.gz"
    with open(path, "wb") as raw, gzip.GzipFile("", "wb", terms.level, raw, mtime=seconds) as packed:
        with tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as archive:
            for place, file in sorted(files.items()):
                add(archive, f"{name}/{place}", file.read_bytes(), file.parent.name == "programs", seconds)
            add(archive, f"{name}/{SUMS}", sums(files).encode(), False, seconds)
    return path


def add(archive, name, content, executable, seconds):
    """A file that belongs to nobody in particular."""
    entry = tarfile.TarInfo(name)
    entry.size, entry.mtime, entry.mode = len(content), seconds, 0o755 if executable else 0o644
    archive.addfile(entry, io.BytesIO(content))


def sums(files):
    """Lines as `sha256sum --check` reads them. `files`: path by name."""
    return "".join(f"{hashlib.sha256(files[it].read_bytes()).hexdigest()}  {it}\n" for it in sorted(files))
