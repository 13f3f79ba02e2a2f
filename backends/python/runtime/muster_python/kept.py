"""Directories that are made once and kept for later: the first process that comes makes one, others wait for it.

They lie in a directory that the server names, as environments do: `<name>` is whole, `<name>.part` is not, and
`<name>.lock` says how many bytes it takes. Processes that use it share that lock for as long as they live.
"""

import fcntl
import os
import shutil

# Kept open: a directory is not removed while a process that uses it lives.
_held = []


def directory(folder, name, make):
    """The directory of that name. `make(part)` makes its content in a new directory, where nobody has done so."""
    target = os.path.join(folder, name)
    part = target + ".part"
    lock = open(target + ".lock", "a+")
    _held.append(lock)
    while True:
        fcntl.flock(lock, fcntl.LOCK_SH)
        if os.path.isdir(target):
            os.utime(target + ".lock")
            return target
        fcntl.flock(lock, fcntl.LOCK_EX)
        if os.path.isdir(target):
            continue
        # What is left of a process that was ended.
        shutil.rmtree(part, ignore_errors=True)
        try:
            make(part)
        except BaseException:
            shutil.rmtree(part, ignore_errors=True)
            raise
        # It may have nothing to put there.
        os.makedirs(part, exist_ok=True)
        os.rename(part, target)
        lock.truncate(0)
        lock.write(str(_size(target)))
        lock.flush()


def _size(folder):
    """Bytes of its files."""
    return sum(os.lstat(os.path.join(it, name)).st_size for it, _, names in os.walk(folder) for name in names)
