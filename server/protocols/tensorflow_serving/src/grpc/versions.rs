//! TensorFlow Serving's calls about models: signatures, states of versions, and a new configuration.

use prost::Message;
use prost_reflect::prost_types::Any;

use super::predict::{find, version};
use crate::{grpc::messages::Spec, states::version_states};
use formats::tfs::{Method, VersionState, VersionStatus, types};
use frontend::{
    grpc::{
        context::Context,
        exchanged::Times,
        proto::tensorflow::{
            SignatureDef, TensorInfo, TensorShapeProto,
            error::Code,
            serving::{
                GetModelMetadataRequest, GetModelMetadataResponse, GetModelStatusRequest,
                GetModelStatusResponse, ModelSpec, ModelVersionStatus, ReloadConfigRequest,
                ReloadConfigResponse, SignatureDefMap, StatusProto, model_spec::VersionChoice,
                model_version_status::State,
            },
            tensor_shape_proto::Dim,
        },
    },
    serving::Serving,
};
use inference::{
    error::Error,
    signature::{Port, Signature},
};

/// The only kind of metadata that a client can request.
const SIGNATURES: &str = "signature_def";

/// The type of the message inside the answer.
const SIGNATURES_TYPE: &str = "type.googleapis.com/tensorflow.serving.SignatureDefMap";

pub(super) async fn metadata(
    context: &Context,
    request: &GetModelMetadataRequest,
) -> Result<GetModelMetadataResponse, Error> {
    let wrong = request.metadata_field.iter().find(|it| *it != SIGNATURES);
    if wrong.is_some() || request.metadata_field.is_empty() {
        let given = wrong.map_or("none".to_owned(), |it| {
            let shown: String = it.chars().take(128).collect();
            format!("'{shown}'")
        });
        let problem = format!("metadata_field: expected '{SIGNATURES}', given {given}");
        return Err(Error::InvalidRequest(problem));
    }
    let spec = Spec::of(request.model_spec.as_ref());
    spec.check()?;
    let serving = &context.front.serving;
    let times = Times { began: None, deadline: serving.deadline(context.timeout) };
    let model = find(serving, &spec, times).await?;
    model.check_ready()?;
    let signature = &model.signature;
    let value = match &signature.named {
        Some(named) => named.definitions.to_vec(),
        None => {
            let only = [(signature.name().to_owned(), definition(signature))];
            SignatureDefMap { signature_def: only.into() }.encode_to_vec()
        }
    };
    let signatures = Any { type_url: SIGNATURES_TYPE.to_owned(), value };
    let number = i64::try_from(signature.version).ok();
    Ok(GetModelMetadataResponse {
        model_spec: Some(ModelSpec {
            name: signature.model.to_string(),
            version_choice: number.map(VersionChoice::Version),
            signature_name: String::new(),
        }),
        metadata: [(SIGNATURES.to_owned(), signatures)].into(),
    })
}

fn definition(signature: &Signature) -> SignatureDef {
    let info = |port: &Port| {
        let batch = signature.batches().then_some(None);
        let sizes = batch.into_iter().chain(port.own_dims().iter().copied());
        let size = |it: Option<usize>| it.and_then(|it| i64::try_from(it).ok()).unwrap_or(-1);
        let dim = sizes.map(|it| Dim { size: size(it), name: String::new() }).collect();
        let tensor_shape = Some(match port.any_rank {
            true => TensorShapeProto { dim: Vec::new(), unknown_rank: true },
            false => TensorShapeProto { dim, unknown_rank: false },
        });
        let (name, dtype) = (format!("{}:0", port.name), types::number(port.dtype));
        (port.name.to_string(), TensorInfo { name, dtype, tensor_shape })
    };
    SignatureDef {
        inputs: signature.inputs.iter().map(info).collect(),
        outputs: signature.outputs.iter().map(info).collect(),
        method_name: Method::Predict.name().to_owned(),
    }
}

pub(super) fn status(
    serving: &Serving,
    request: &GetModelStatusRequest,
) -> Result<GetModelStatusResponse, Error> {
    let spec = Spec::of(request.model_spec.as_ref());
    spec.check()?;
    let states = version_states(&serving.models, spec.name, version(serving, &spec)?)?;
    let state = |VersionStatus { version, state, failure }: VersionStatus| {
        let state = match state {
            VersionState::Start => State::Start,
            VersionState::Loading => State::Loading,
            VersionState::Available => State::Available,
            VersionState::Unloading => State::Unloading,
            VersionState::End => State::End,
        };
        let error_code = if failure.is_none() { Code::Ok } else { Code::Internal };
        let error_message = failure.unwrap_or_default();
        ModelVersionStatus {
            version: i64::try_from(version).unwrap_or(i64::MAX),
            state: state.into(),
            status: Some(StatusProto { error_code: error_code.into(), error_message }),
        }
    };
    Ok(GetModelStatusResponse { model_version_status: states.into_iter().map(state).collect() })
}

pub(super) async fn reload(
    serving: &Serving,
    request: ReloadConfigRequest,
) -> Result<ReloadConfigResponse, Error> {
    let config = request.config.ok_or_else(|| {
        Error::InvalidRequest(
            "config: expected the models that are to be served, given none".to_owned(),
        )
    })?;
    let control = serving.control.clone();
    serving.control_threads.run(move || control.configure(&config)).await??;
    let status = StatusProto { error_code: Code::Ok.into(), error_message: String::new() };
    Ok(ReloadConfigResponse { status: Some(status), ..ReloadConfigResponse::default() })
}
