"""Folders of models, as they are mounted into the containers."""

import os
import shutil
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FIXTURES = ROOT / "tests/fixtures"


class Models:
    """Below one folder, each made when it is first asked for. Everybody may read them, as a container's user must."""

    def __init__(self, folder):
        self.folder = folder
        folder.chmod(0o755)

    def mount(self, name):
        """Options of `docker run` that mount the folder of that name as a platform does, read-only."""
        path = self.folder / name
        if not path.exists():
            path.mkdir()
            getattr(self, name)(path)
            for place, _, files in os.walk(path):
                os.chmod(place, 0o755)
                for file in files:
                    if not os.path.islink(os.path.join(place, file)):
                        os.chmod(os.path.join(place, file), 0o644)
        return ["-v", f"{path}:/opt/ml/model:ro"]

    def empty(self, path):
        """Nothing, as where the path of a mount is misspelt."""

    def single(self, path):
        """One model in a repository."""
        shutil.copytree(FIXTURES / "models/mlp", path / "mlp")
        (path / "mlp/config.pbtxt").write_text("max_batch_size: 32\ndynamic_batching { }\n")

    def torchscript(self, path):
        """The model of `single` for libtorch."""
        shutil.copytree(FIXTURES / "torchscript/mlp", path / "mlp")

    def savedmodel(self, path):
        """Half of a number and two, for TensorFlow."""
        shutil.copytree(FIXTURES / "savedmodels/half_plus_two", path / "half_plus_two")

    def forest(self, path):
        """What a training of XGBoost leaves, alone."""
        shutil.copy(FIXTURES / "forests/xgboost-3.4.1/logistic.ubj", path / "xgboost-model")

    def flat(self, path):
        """A model file alone."""
        shutil.copy(FIXTURES / "models/mlp/1/model.onnx", path / "model.onnx")

    def texts(self, path):
        """A model of scikit-learn that counts words, for which it asks for a locale."""
        shutil.copytree(FIXTURES / "classifiers/opinions", path / "opinions")

    def slow(self, path):
        """A model that takes 3 seconds to load, and answers what it is asked."""
        (path / "slow/1").mkdir(parents=True)
        (path / "slow/config.pbtxt").write_text(
            'backend: "identity" max_batch_size: 8\n'
            'input { name: "INPUT0" data_type: TYPE_FP32 dims: [ 4 ] }\n'
            'output { name: "OUTPUT0" data_type: TYPE_FP32 dims: [ 4 ] }\n'
            'parameters { key: "creation_delay_sec" value: { string_value: "3" } }\n'
        )

    def broken(self, path):
        """A file that is no model."""
        shutil.copytree(FIXTURES / "broken/corrupt", path / "corrupt")

    def mixed(self, path):
        """A good model beside a broken one."""
        self.single(path)
        self.broken(path)

    def junk(self, path):
        """A model, and what disks, archives and platforms leave beside it."""
        self.single(path)
        (path / "model.tar.gz").write_bytes(b"not a model")
        (path / ".hidden").write_text("x")
        (path / ".git").mkdir()
        (path / "README.md").write_text("# a model")
        (path / "lost+found").mkdir()
        (path / "notes").mkdir()
        (path / "dangling").symlink_to("nowhere")
