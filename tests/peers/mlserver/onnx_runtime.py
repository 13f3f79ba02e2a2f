"""MLServer with a runtime of our own, since it has none for ONNX. Its settings come in its own variables."""

from mlserver import MLModel
from mlserver.codecs import NumpyCodec
from mlserver.types import InferenceRequest, InferenceResponse

from onnx_model import Model


class OnnxModel(MLModel):
    """One input and one output by the KServe v2 protocol."""

    async def load(self) -> bool:
        """Loads the model, in each worker process."""
        self.model = Model()
        return True

    async def predict(self, payload: InferenceRequest) -> InferenceResponse:
        """Runs the model on the rows of a request, or of several where MLServer has joined them."""
        rows = self.model(self.model.array(NumpyCodec.decode_input(payload.inputs[0])))
        output = NumpyCodec.encode_output(self.model.output.name, rows)
        return InferenceResponse(model_name=self.name, outputs=[output])
