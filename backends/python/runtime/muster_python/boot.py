"""The first code in the process of a model: it makes the modules of this runtime importable, and starts the process.

The server runs the text of this file. `d` is what the server has handed over: the sources of all modules, the number of
the control socket, and the model to load.
"""

import sys
from importlib.machinery import ModuleSpec

# The runtime is written for this version.
OLDEST = (3, 9)


class Importer:
    """Imports the modules whose sources the server has handed over. There are no files of them."""

    def __init__(self, sources):
        self._sources = sources

    def find_spec(self, name, path=None, target=None):
        if name not in self._sources:
            return None
        is_package = any(it.startswith(name + ".") for it in self._sources)
        spec = ModuleSpec(name, self, origin=self.get_filename(name), is_package=is_package)
        spec.has_location = True
        return spec

    def create_module(self, spec):
        return None

    def exec_module(self, module):
        name = module.__spec__.name
        exec(compile(self._sources[name], self.get_filename(name), "exec"), module.__dict__)

    def get_filename(self, name):
        """A name that no file has. Tracebacks show it, with lines that they get from `get_source`."""
        return "<muster>/" + name.replace(".", "/") + ".py"

    def get_source(self, name):
        return self._sources[name]

    def is_package(self, name):
        return self.find_spec(name).submodule_search_locations is not None


def start(handed):
    """Runs the process until the server lets it go."""
    # The directory that the server runs in has nothing to be imported.
    sys.path[:] = [it for it in sys.path if it]
    sys.meta_path.insert(0, Importer(handed["modules"]))
    from muster_python import environment

    if sys.version_info < OLDEST:
        found, oldest = ".".join(map(str, sys.version_info[:3])), ".".join(map(str, OLDEST))
        text = f"{sys.executable} is Python {found}, and models need {oldest} or later: name another by --python"
        environment.refuse(handed["control"], {"Err": {"kind": "Load", "text": text}})
    environment.prepare(handed["control"], handed["load"])
    from muster_python.child import main

    main(handed["control"], handed["load"])


start(d)  # noqa: F821 (the server's own line of Python has read it)
