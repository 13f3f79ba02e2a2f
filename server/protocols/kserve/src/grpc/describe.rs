//! Metadata, configuration and statistics of the server and its models.

use std::collections::BTreeMap;

use formats::kserve_v2;
use frontend::{
    exchange::admin,
    grpc::{
        context::Context,
        messages::{find, version},
        proto::{
            InferBatchStatistics, InferParameter, InferResponseStatistics, InferStatistics,
            MemoryUsage, ModelConfigRequest, ModelConfigResponse, ModelMetadataRequest,
            ModelMetadataResponse, ModelStatistics, ModelStatisticsRequest,
            ModelStatisticsResponse, ServerMetadataRequest, ServerMetadataResponse,
            StatisticDuration, infer_parameter::ParameterChoice,
            model_metadata_response::TensorMetadata,
        },
    },
    serving::Serving,
};
use inference::{
    error::Error,
    signature::{MERGING, Port, Signature},
};
use serving::ServedModel;
use telemetry::metrics::Total;

pub(super) fn server(
    serving: &Serving,
    ServerMetadataRequest {}: ServerMetadataRequest,
) -> ServerMetadataResponse {
    ServerMetadataResponse {
        name: serving.settings.server_name.to_string(),
        version: frontend::serving::VERSION.to_owned(),
        extensions: kserve_v2::EXTENSIONS.iter().map(|it| (*it).to_owned()).collect(),
    }
}

pub(super) async fn model(
    context: &Context,
    request: &ModelMetadataRequest,
) -> Result<ModelMetadataResponse, Error> {
    let model = find(context, &request.name, &request.version).await?;
    model.check_ready()?;
    let versions = match version(&request.version)? {
        Some(version) => vec![version],
        None => context.front.serving.models.ready_versions(&request.name),
    };
    let signature = &model.signature;
    Ok(ModelMetadataResponse {
        name: signature.model.to_string(),
        versions: versions.iter().map(u64::to_string).collect(),
        platform: model.platform().to_owned(),
        inputs: ports(signature, &signature.inputs),
        outputs: ports(signature, &signature.outputs),
        parameters: metadata_parameters(signature, model.merging()),
    })
}

pub(super) async fn config(
    context: &Context,
    request: &ModelConfigRequest,
) -> Result<ModelConfigResponse, Error> {
    let model = find(context, &request.name, &request.version).await?;
    Ok(ModelConfigResponse { config: Some(model.shown_message()) })
}

pub(super) fn statistics(
    serving: &Serving,
    request: &ModelStatisticsRequest,
) -> Result<ModelStatisticsResponse, Error> {
    let ModelStatisticsRequest { name, version } = request;
    let number = self::version(version)?;
    if name.is_empty() && number.is_some() {
        let problem = format!("name: expected that of the model of version {version}, given none");
        return Err(Error::InvalidRequest(problem));
    }
    let name = Some(&**name).filter(|it| !it.is_empty());
    let models = admin::counted_models(serving, name, number)?;
    Ok(ModelStatisticsResponse { model_stats: models.iter().map(|it| counted(it)).collect() })
}

fn counted(model: &ServedModel) -> ModelStatistics {
    let counted = model.metrics.statistics();
    let total = |Total { count, ns }: Total| Some(StatisticDuration { count, ns });
    ModelStatistics {
        name: model.signature.model.to_string(),
        version: model.signature.version.to_string(),
        last_inference: counted.last_inference_ms,
        inference_count: counted.inference_count,
        execution_count: counted.execution_count,
        inference_stats: Some(InferStatistics {
            success: total(counted.success),
            fail: total(counted.fail),
            queue: total(counted.queue),
            compute_input: total(counted.compute_input),
            compute_infer: total(counted.compute_infer),
            compute_output: total(counted.compute_output),
            cache_hit: total(counted.cache_hit),
            cache_miss: total(counted.cache_miss),
        }),
        batch_stats: counted
            .batches
            .iter()
            .map(|it| InferBatchStatistics {
                batch_size: it.rows,
                compute_input: total(it.compute_input),
                compute_infer: total(it.compute_infer),
                compute_output: total(it.compute_output),
            })
            .collect(),
        memory_usage: counted
            .memory
            .iter()
            .map(|it| MemoryUsage { r#type: it.kind.to_owned(), id: it.id, byte_size: it.bytes })
            .collect(),
        response_stats: counted
            .responses
            .iter()
            .map(|it| {
                let statistics = InferResponseStatistics {
                    compute_infer: total(it.compute_infer),
                    compute_output: total(it.compute_output),
                    success: total(it.success),
                    fail: total(it.fail),
                    empty_response: total(it.empty_response),
                    cancel: total(it.cancel),
                };
                (it.place.to_string(), statistics)
            })
            .collect(),
    }
}

/// What the metadata over HTTP says as parameters.
fn metadata_parameters(
    signature: &Signature,
    merging: Option<String>,
) -> BTreeMap<String, InferParameter> {
    // Parameters of this protocol are no lists.
    let list = |names: Vec<&str>| ParameterChoice::StringParam(names.join(","));
    let merging = merging.map(|it| (MERGING, ParameterChoice::StringParam(it)));
    let pipeline = signature.pipeline.as_deref();
    let inputs = pipeline.map(|it| ("graph_inputs", list(it.graph_inputs().collect())));
    let jpeg = pipeline.and_then(|it| it.jpeg.as_deref());
    let jpeg = jpeg.map(|it| ("jpeg", ParameterChoice::StringParam(it.to_owned())));
    let is_dependent = pipeline.is_some_and(|it| !it.row_independent);
    let independent =
        is_dependent.then_some(("row_independent", ParameterChoice::BoolParam(false)));
    let has_others = !signature.others().is_empty();
    let signatures =
        has_others.then(|| ("signatures", list(signature.usable().map(Signature::name).collect())));
    let features = signature.feature_names();
    let features =
        features.map(|it| ("feature_names", list(it.iter().map(String::as_str).collect())));
    let all = [merging, inputs, jpeg, independent, signatures, features].into_iter().flatten();
    let parameter = |value| InferParameter { parameter_choice: Some(value) };
    all.map(|(name, value)| (name.to_owned(), parameter(value))).collect()
}

fn ports(signature: &Signature, ports: &[Port]) -> Vec<TensorMetadata> {
    let shape = |port: &Port| {
        let batch = signature.batches().then_some(None);
        let dims = batch.into_iter().chain(port.dims.iter().copied());
        dims.map(|it| it.and_then(|size| i64::try_from(size).ok()).unwrap_or(-1)).collect()
    };
    let port = |it: &Port| TensorMetadata {
        name: it.name.to_string(),
        datatype: it.dtype.name().to_owned(),
        shape: shape(it),
    };
    ports.iter().map(port).collect()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use backend::DataType;
    use inference::{signature::Pipeline, task::Task};

    use super::*;

    #[test]
    fn metadata_says_what_it_says_over_http() {
        let age = Port {
            name: "input".into(),
            dtype: DataType::Fp32,
            dims: vec![Some(2)],
            any_rank: false,
            scalar: false,
            optional: false,
            labels: Arc::new(["age".to_owned(), "income".to_owned()]),
            text_codes: Default::default(),
        };
        let signature = |row_independent| {
            let (task, forms) = (Task::SentenceEmbedding, Vec::new());
            Signature {
                named: None,
                graph_checks_shapes: false,
                takes_missing: false,
                model: "m".into(),
                version: 1,
                max_batch_size: 8,
                most_rows: None,
                inputs: Vec::new(),
                outputs: Vec::new(),
                on_request: Vec::new(),
                pipeline: Some(Arc::new(Pipeline {
                    task,
                    forms,
                    row_independent,
                    sampling_rate: None,
                    jpeg: Some("zune-jpeg".into()),
                })),
            }
        };
        let said = |row_independent, merging: Option<&str>| {
            metadata_parameters(&signature(row_independent), merging.map(str::to_owned))
        };
        assert_eq!(said(true, None).keys().collect::<Vec<_>>(), ["graph_inputs", "jpeg"]);
        let value = said(false, None).remove("row_independent").unwrap();
        assert_eq!(value.parameter_choice, Some(ParameterChoice::BoolParam(false)));
        let value = said(true, Some("off: it mixes")).remove("muster_merging").unwrap();
        let text = |it: &str| Some(ParameterChoice::StringParam(it.to_owned()));
        assert_eq!(value.parameter_choice, text("off: it mixes"));
        let named = Signature { inputs: vec![age], pipeline: None, ..signature(true) };
        let value = metadata_parameters(&named, None).remove("feature_names").unwrap();
        assert_eq!(value.parameter_choice, text("age,income"));
    }
}
