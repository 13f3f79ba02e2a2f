"""The unit, as systemd itself judges it. No systemd need run: systemd-analyze reads files."""

import shutil
import subprocess

# What systemd-analyze may find exposed at most, in tenths: 0 is nothing, 100 is what a unit without settings has.
EXPOSURE = 20


def check(manifests, report, work):
    """systemd understands every line of the unit, and finds little that it leaves open."""
    unit = manifests.unit
    if not shutil.which("systemd-analyze"):
        report.skipped(unit.file, "there is no systemd-analyze (Debian: systemd)", required=False)
        return
    # It looks for the program, which is not installed here: another one stands in its place.
    copy = work / "systemd" / unit.file.rsplit("/", 1)[1]
    copy.parent.mkdir(parents=True, exist_ok=True)
    copy.write_text(unit.text.replace(unit.program, shutil.which("true")))
    done = analyze("verify", "--man=no", copy)
    # A line that it does not understand is passed over: it says so, and ends with 0.
    if done.returncode != 0 or done.stderr.strip():
        report.problem(unit.file, done.stderr.strip() or f"systemd-analyze verify ends with {done.returncode}")
    else:
        report.ok(f"{unit.file}: systemd-analyze verify")
    done = analyze("security", "--offline=true", f"--threshold={EXPOSURE}", copy)
    if done.returncode != 0:
        report.problem(unit.file, (done.stdout.strip().splitlines() or [done.stderr.strip()])[-1])
    else:
        report.ok(f"{unit.file}: an exposure below {EXPOSURE / 10}")


def analyze(*arguments):
    """What systemd-analyze says."""
    return subprocess.run(["systemd-analyze", "--no-pager", *arguments], capture_output=True, text=True)
