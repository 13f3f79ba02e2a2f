"""Archives of TorchServe: how a `.mar` file is unpacked, and what its manifest says."""

import hashlib
import json
import os
import shutil
import zipfile

from muster_python import kept

# What makes a folder one of TorchServe's.
FOLDER, MANIFEST = "MAR-INF", "MANIFEST.json"

# An archive has so many files and bytes at most.
_MOST_FILES, _MOST_BYTES = 100_000, 64 << 30

# A file is read in parts of so many bytes.
_PART = 1 << 20


def is_manifest(path):
    """Is it the manifest of an unpacked archive?"""
    folder, name = os.path.split(path)
    return name == MANIFEST and os.path.basename(folder) == FOLDER


def open_archive(load, directory):
    """Puts the unpacked archive in the place of a `.mar` file. `directory`: where such are kept."""
    path = load["file"]
    if not path.endswith(".mar"):
        return
    # Before it is read to its end, which may be far.
    if _MOST_BYTES < os.path.getsize(path) or not zipfile.is_zipfile(path):
        raise ValueError(f"'{path}' is no archive of TorchServe, which is a zip file of {_MOST_BYTES} bytes at most")
    with open(path, "rb") as file:
        digest = hashlib.sha256()
        while part := file.read(_PART):
            digest.update(part)
    unpacked = kept.directory(directory, digest.hexdigest(), lambda part: _unpack(path, part, directory))
    load["file"] = os.path.join(unpacked, FOLDER, MANIFEST)
    load["directory"] = load["version_directory"] = unpacked


def requirements(load):
    """The list of packages that comes with an archive; `None` where there is none."""
    if not is_manifest(load["file"]):
        return None
    name = manifest(load["file"])["model"].get("requirementsFile")
    path = name and os.path.join(model_directory(load["file"]), name)
    return path if path and os.path.isfile(path) else None


def model_directory(path):
    """The folder that the manifest at `path` is of."""
    return os.path.dirname(os.path.dirname(path))


def manifest(path):
    """What the manifest says, with the keys that there have to be."""
    with open(path, encoding="utf-8") as file:
        said = json.load(file)
    model = said.get("model") if isinstance(said, dict) else None
    if not isinstance(model, dict) or not isinstance(model.get("handler"), str):
        expected = '{"model": {"handler": ..}}'
        raise ValueError(f"'{path}' names no handler: expected {expected}, as torch-model-archiver writes it")
    return said


def _unpack(path, part, directory):
    """Puts the files of an archive below `part`, and nothing elsewhere."""
    try:
        archive = zipfile.ZipFile(path)
    except zipfile.BadZipFile as error:
        raise ValueError(f"'{path}' is no archive of TorchServe, which is a zip file: {error}") from error
    with archive:
        files = [it for it in archive.infolist() if not it.is_dir()]
        room = min(_MOST_BYTES, shutil.disk_usage(directory).free // 10 * 9)
        wanted = sum(it.file_size for it in files)
        if len(files) > _MOST_FILES or wanted > room:
            raise ValueError(
                f"'{path}' has {len(files)} files of {wanted} bytes, expected at most {_MOST_FILES} of {room}"
            )
        if f"{FOLDER}/{MANIFEST}" not in archive.namelist():
            raise ValueError(f"'{path}' has no {FOLDER}/{MANIFEST}: make it with torch-model-archiver")
        for it in files:
            names = it.filename.split("/")
            if it.filename.startswith("/") or ".." in names or "\\" in it.filename or len(names) > 64:
                raise ValueError(f"'{path}' has a file that would lie outside of it: '{it.filename}'")
            # Of a link its target is written as text: nothing leads elsewhere.
            archive.extract(it, part)
