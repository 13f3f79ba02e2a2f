"""MLflow's own tracking server, with its registry over SQLite and artifacts in a directory.

    python tests/clients/mlflow_server.py DIR

Prints `{"port": ..}`. Each line of standard input is a command, whose answer is a line of JSON. They are carried out by
MLflow's client:

    register NAME FOLDER FLAVOR FILE   a version of a model: the files of FOLDER, where FILE is the one of the flavor
    register_run NAME FOLDER FLAVOR FILE   the same as the artifact of a run, as MLflow 2 has it
    register_at NAME URI               a version whose artifacts lie there
    alias NAME ALIAS VERSION
    delete NAME
"""

import json
import os
import pathlib
import shutil
import socket
import sys
import tempfile
import threading
import time

ROOT = pathlib.Path(sys.argv[1]).absolute()

# As `mlflow server` hands its options to the processes that it starts: they are this one here.
os.environ |= {
    "_MLFLOW_SERVER_FILE_STORE": f"sqlite:///{ROOT}/mlflow.db",
    "_MLFLOW_SERVER_ARTIFACT_ROOT": "mlflow-artifacts:/",
    "_MLFLOW_SERVER_ARTIFACT_DESTINATION": f"{ROOT}/artifacts",
    "_MLFLOW_SERVER_SERVE_ARTIFACTS": "true",
    "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false",
}

import uvicorn  # noqa: E402
from mlflow import MlflowClient  # noqa: E402
from mlflow.models import Model  # noqa: E402
from mlflow.server.fastapi_app import app  # noqa: E402
from mlflow.server.handlers import initialize_backend_stores  # noqa: E402


class Commands:
    def __init__(self, port):
        self.client = MlflowClient(f"http://127.0.0.1:{port}")

    def saved(self, folder, flavor, file):
        """A copy of the folder with what MLflow writes beside a model."""
        copy = pathlib.Path(tempfile.mkdtemp(dir=ROOT)) / "model"
        shutil.copytree(folder, copy)
        model = Model()
        model.add_flavor(flavor, data=file, code=None)
        model.save(str(copy / "MLmodel"))
        return copy

    def version(self, name, source, **more):
        try:
            self.client.get_registered_model(name)
        except Exception:
            self.client.create_registered_model(name)
        return int(self.client.create_model_version(name, source, **more).version)

    def register(self, name, folder, flavor, file):
        model = self.client.create_logged_model(experiment_id="0")
        self.client.log_model_artifacts(model.model_id, str(self.saved(folder, flavor, file)))
        self.client.finalize_logged_model(model.model_id, "READY")
        return self.version(name, f"models:/{model.model_id}", model_id=model.model_id)

    def register_run(self, name, folder, flavor, file):
        run = self.client.create_run("0")
        self.client.log_artifacts(run.info.run_id, str(self.saved(folder, flavor, file)), "model")
        return self.version(name, f"{run.info.artifact_uri}/model", run_id=run.info.run_id)

    def register_at(self, name, uri):
        return self.version(name, uri)

    def alias(self, name, alias, version):
        self.client.set_registered_model_alias(name, alias, version)

    def delete(self, name):
        self.client.delete_registered_model(name)


def main():
    uri = os.environ["_MLFLOW_SERVER_FILE_STORE"]
    initialize_backend_stores(uri, uri, "mlflow-artifacts:/")
    listener = socket.create_server(("127.0.0.1", 0))
    port = listener.getsockname()[1]
    server = uvicorn.Server(uvicorn.Config(app, log_level="error"))
    threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True).start()
    while not server.started:
        time.sleep(0.01)
    commands = Commands(port)
    print(json.dumps({"port": port}), flush=True)
    for line in sys.stdin:
        command, *words = line.split()
        print(json.dumps(getattr(commands, command)(*words)), flush=True)


main()
