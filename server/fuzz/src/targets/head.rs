//! What stands in front of a body: the address and the headers.

use formats::{
    expansion::Limit,
    kserve_v2,
    negotiate::{self, Media},
};
use frontend::{
    grpc::{metadata, services::Services},
    http::{
        address::{RequestHead, percent_decode},
        encoding, framing,
        protocol::Protocol,
    },
};
use hyper::{
    HeaderMap, Method, Version,
    header::{HeaderName, HeaderValue},
};
use inference::access::{Forwarding, Restriction, Tokens};
use sagemaker::codec::{
    aws::Location,
    invocations::{Attributes, Invocation},
};

use std::sync::Arc;

use embeddings::{Embeddings, TextSettings};
use kserve::{KServe, KServeServices};
use tensorflow_serving::{TensorFlowServices, TensorFlowServing};

use super::Target;
use crate::{oracle, seen::Seen};

/// Text of errors: the address a few times, which hyper bounds.
const HEAD: Limit = Limit { free: 16 << 10, ratio: 16, most: usize::MAX };

/// Addresses. The first byte is the method.
pub(super) const ROUTER: Target = Target {
    name: "router",
    decode: |data| {
        let mut seen = Seen::default();
        let Some((method, path)) = data.split_first() else { return seen };
        let path = String::from_utf8_lossy(path);
        let methods = [Method::GET, Method::POST, Method::DELETE, Method::HEAD];
        let method = &methods[usize::from(*method) % methods.len()];
        oracle::within(HEAD, path.len(), || {
            let headers = HeaderMap::new();
            let head = RequestHead::new(method, &path, &headers);
            let texts = TextSettings {
                served_model_name: None,
                truncates: true,
                tei_root: path.len().is_multiple_of(2),
                tei_batch_status: 422,
            };
            let embeddings = Embeddings { settings: Arc::new(texts) };
            let tensorflow = TensorFlowServing { metrics_path: None };
            let protocols = (KServe, (tensorflow, (embeddings, ())));
            if let Some(Some(operation)) = protocols.route(&head).map(|it| seen.result(it)) {
                seen.fact(format!("{:?}", protocols.need(&operation, method)));
            }
            if let Some(Some(operation)) = seen.result(sagemaker::route::route(&head)) {
                seen.fact(format!("{:?}", operation.need()));
            }
            if let Some(decoded) = seen.result(percent_decode(&path)) {
                assert!(decoded.len() <= path.len(), "decoding makes nothing longer");
            }
            seen.fact(KServeServices.method(&path).is_some());
            seen.fact(TensorFlowServices.method(&path).is_some());
        });
        seen
    },
    examples: || {
        let paths = [
            "/",
            "/v2",
            "/v2/health/live",
            "/v2/models/m/versions/3/infer",
            "/v2/models/a%20b/ready",
            "/v2/repository/models/m/load",
            "/v2/repository/index",
            "/v2/models/m/generate_stream",
            "/v2/models/m/trace/setting",
            "/v2/logging",
            "/v2/systemsharedmemory/region/r/register",
            "/v2/cudasharedmemory/status",
            "/v1/models/m/versions/2:predict",
            "/v1/models/m/labels/stable:classify",
            "/v1/models/m/metadata",
            "/models/m/invoke",
            "/models",
            "/models/a%2fb",
            "/invocations",
            "/metrics",
            "/inference.GRPCInferenceService/ModelInfer",
            "/tensorflow.serving.PredictionService/Predict",
        ];
        let all = paths
            .into_iter()
            .flat_map(|path| [0, 1, 2].map(|it| [&[it], path.as_bytes()].concat()));
        all.collect()
    },
    words: &[
        "/",
        "//",
        "%",
        "%2f",
        "%00",
        "%ff",
        "..",
        ":",
        ":predict",
        "versions",
        "labels",
        "models",
        "v1",
        "v2",
        "infer",
        "18446744073709551616",
        "-1",
        "+1",
        "?",
        "status",
        "region",
        "all",
        "load",
        "invoke",
    ],
};

/// Headers, one on a line.
pub(super) const HEADERS: Target = Target {
    name: "headers",
    decode: |data| {
        let mut seen = Seen::default();
        let mut headers = HeaderMap::new();
        for line in data.split(|it| *it == b'\n') {
            let Some(at) = line.iter().position(|it| *it == b':') else { continue };
            let (name, value) =
                (HeaderName::from_bytes(&line[..at]), HeaderValue::from_bytes(&line[at + 1..]));
            if let (Ok(name), Ok(value)) = (name, value) {
                headers.append(name, value);
            }
        }
        let bound = Limit { free: 64 << 10, ratio: 64, most: usize::MAX };
        oracle::within(bound, data.len(), || read(&mut seen, &headers));
        // The pattern is the operator's.
        if let Ok(pattern) = Forwarding::new("x-.*") {
            let lines = headers.iter().map(|(name, value)| (name.as_str(), value.as_bytes()));
            seen.result(pattern.select(lines).map(|it| it.len()));
        }
        seen
    },
    examples: || {
        let heads = [
            "host:a\ntransfer-encoding:chunked\ncontent-encoding:gzip\naccept-encoding:gzip;q=0.5, deflate",
            "content-type:application/json; charset=utf-8\naccept:text/csv;q=0.5, */*;q=0.1",
            "content-type:application/vnd.sagemaker-triton.binary+json;json-header-size=12",
            "inference-header-content-length:17\naccept:application/x-npy",
            "content-type:application/grpc\ngrpc-timeout:100m\ngrpc-encoding:gzip\ngrpc-accept-encoding:gzip,identity",
            "x-request-timeout-ms:5\nx-envoy-expected-rq-timeout-ms:7\ntriton_grpc_error:true",
            "x-amzn-sagemaker-custom-attributes:tfs-model-name=m,tfs-model-version=3,tfs-method=predict",
            "authorization:Bearer abc\ntraceparent:00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
            "content-type:text/csv; header=present\nx-rule:inference:key=value\nx-bucket:s3://b/k/e/y",
        ];
        heads.map(|it| it.as_bytes().to_vec()).to_vec()
    },
    words: &[
        ":",
        ";",
        ",",
        "=",
        "q=",
        "q=0.5",
        "gzip",
        "deflate",
        "identity",
        "chunked",
        "*/*",
        "application/",
        "json",
        "\n",
        "99999999H",
        "18446744073709551616",
        "-1",
        "tfs-model-name=",
        "tfs-method=",
        "json-header-size=",
        "header=",
        "s3://",
        "\u{e9}",
        "\"",
        "content-type:",
        "accept:",
        "grpc-timeout:",
        "text/csv",
    ],
};

/// Everything that is read from headers.
fn read(seen: &mut Seen, headers: &HeaderMap) {
    seen.result(framing::look(Version::HTTP_11, headers).framing);
    seen.result(encoding::of_body(headers, true).map(|_| ()));
    seen.fact(encoding::wanted(headers).is_some());
    seen.fact((metadata::is_call(headers), metadata::errors_end_the_stream(headers)));
    seen.result(metadata::timeout(headers));
    seen.result(metadata::encoding(headers).map(|_| ()));
    seen.fact(metadata::accepted(headers).is_some());
    let text = |name: &str| headers.get(name).and_then(|it| it.to_str().ok());
    let content_type = text("content-type");
    let accept = text("accept");
    seen.result(Invocation::read(content_type, accept, text("x-amzn-sagemaker-custom-attributes")));
    if let Some(content_type) = content_type {
        seen.fact(negotiate::declared(Some(content_type)).json_length().is_some());
        seen.fact(negotiate::csv_header(content_type));
        seen.result(kserve_v2::media::json_length(content_type));
    }
    let chosen =
        negotiate::choose(accept, None, Media::Json, &[Media::Json, Media::Csv, Media::Npy]);
    seen.result(chosen.map(|_| ()));
    for (_, value) in headers {
        let Ok(text) = value.to_str() else { continue };
        seen.result(kserve_v2::parse_header_length(text, 1000));
        seen.result(Attributes::read(text));
        seen.result(Location::parse(text));
        seen.result(Restriction::parse(text));
        seen.result(Tokens::parse(text).map(|_| ()));
    }
}
