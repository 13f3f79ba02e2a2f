"""The terms and notices of what others wrote that is inside the programs: their licences ask for it."""

import re
import shutil
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

from .onnxruntime import NOTICES
from .programs import ROOT

HEAD = """\
muster contains the work of others. Each part below says which of it is under which terms, with the copyright notices
that its authors ask to keep. ONNX Runtime's terms are in the folder onnxruntime, those of Rust's standard library in
the folder rust. muster's own terms are in the file LICENSE.
"""
RULE = "\n" + "=" * 100 + "\n"


def write(folder, crates, library, tools=None):
    """Puts all notices into a folder: muster's, the crates', Rust's, ONNX Runtime's and those of zig's runtime, which
    is in programs that zig linked."""
    folder.mkdir(parents=True)
    shutil.copy(ROOT / "LICENSE", folder / "LICENSE")
    (folder / "THIRD-PARTY-NOTICES.txt").write_text(HEAD + "".join(parts(crates)))
    if library is not None:
        (folder / "onnxruntime").mkdir()
        for name in NOTICES:
            shutil.copy(library / name, folder / "onnxruntime" / name)
    (folder / "rust").mkdir()
    shutil.copy(standard_library(), folder / "rust/COPYRIGHT-library.html")
    if tools is not None:
        (folder / "zig").mkdir()
        (zig,) = tools.parent.glob("lib/python3*/site-packages/ziglang")
        shutil.copy(zig / "LICENSE", folder / "zig/LICENSE")
        shutil.copy(zig / "lib/libunwind/LICENSE.TXT", folder / "zig/LICENSE-libunwind.txt")


def parts(crates):
    """A text for each licence as it was written, with the crates that have it in these words."""
    owners = defaultdict(list)
    for it in crates:
        for text in texts_of(it, crates):
            owners[text].append(it)
    # Lines that end elsewhere make no other text.
    merged = defaultdict(list)
    for text, those in owners.items():
        merged[re.sub(r"\s+", " ", text)].append((text, those))
    for same in sorted(merged.values(), key=lambda it: it[0][1][0].name):
        those = sorted({(it.name, it.version, it.license, it.repository) for _, some in same for it in some})
        yield RULE
        for name, version, license, repository in those:
            yield f"{name} {version} ({license}) {repository}\n"
        yield f"\n{same[0][0]}\n"


def texts_of(crate, crates):
    """A crate's texts. One without has those of another of its repository; else Apache-2.0's, which names nobody."""
    texts = crate.texts()
    if not texts and crate.repository:
        siblings = [it for it in crates if it.repository == crate.repository]
        texts = next((found for it in siblings if (found := it.texts())), [])
    if not texts and "Apache-2.0" in crate.license:
        texts = [(ROOT / "LICENSE").read_text().strip()]
    if not texts:
        sys.exit(f"{crate.name} {crate.version} ({crate.license}) has no text of its licence, nor has its repository "
                 f"another crate with one: put it into deploy/shipping/notices.py")
    return texts


def standard_library():
    """The notices of Rust's standard library, which every toolchain holds."""
    done = subprocess.run(["rustc", "--print", "sysroot"], capture_output=True, text=True, check=True)
    found = Path(done.stdout.strip()) / "share/doc/rust/COPYRIGHT-library.html"
    if not found.is_file():
        sys.exit(f"{found} is not there, which a toolchain of Rust holds")
    return found
