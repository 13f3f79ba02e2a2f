//! Giving back what the arena that models have in common holds and no run uses.

use std::{num::NonZeroUsize, path::Path, sync::Arc};

use backend::{
    BackendError, Batch, DataType, Device, Instance, ModelSpec, NamedTensor, Shape, Stop, Tensor,
    TensorSpec,
};

use crate::{
    error, held::InMemory, instance::OnnxInstance, library::Runtime, native::Source,
    options::Settings, place::open, trim::Trims,
};

/// A model that gives back the one number that it gets: `y = Identity(x)`, both `[1]` of FP32.
const IDENTITY: &[u8] = b"\x08\x08\x12\x00:6\n\x10\n\x01x\x12\x01y\"\x08Identity\x12\x00Z\x0f\n\x01x\x12\n\n\x08\x08\
    \x01\x12\x04\n\x02\x08\x01b\x0f\n\x01y\x12\n\n\x08\x08\x01\x12\x04\n\x02\x08\x01B\x04\n\x00\x10\r";

/// Gives it back. Blocking, some milliseconds.
///
/// ONNX Runtime lets an arena shrink only at the end of a run, so there is one, of a model made for it.
pub(crate) fn shrink_common_arena(runtime: &Arc<Runtime>) -> Result<(), BackendError> {
    let mut settings = Settings::read(&Default::default(), NonZeroUsize::MIN)?;
    settings.common_arena = true;
    settings.shrinkage = Some("cpu:0".to_owned());
    let session =
        open(runtime, Path::new(""), Source::Content(IDENTITY), InMemory::NOTHING, &settings)?;
    let port = |name: &str| TensorSpec {
        name: name.into(),
        dtype: DataType::Fp32,
        dims: vec![Some(1)],
        any_rank: false,
        optional: false,
    };
    let spec =
        ModelSpec { inputs: vec![port("x")], outputs: vec![port("y")], ..ModelSpec::default() };
    let session = Arc::new(session);
    let instance = OnnxInstance::new(session, &spec, Device::Cpu, &settings, &Trims::default());
    let mut instance = instance.map_err(|it| error::of_run(&it))?;
    let tensor = Tensor::zeros(DataType::Fp32, Shape::new(&[1]));
    let tensor = tensor.map_err(|it| BackendError::Execute(it.to_string()))?;
    let inputs = [NamedTensor { name: "x".into(), tensor }];
    let batch = Batch {
        signature: 0,
        inputs: &inputs,
        outputs: &["y".into()],
        rows: 1,
        stop: &Stop::new(),
    };
    instance.execute(&batch).map(drop)
}
