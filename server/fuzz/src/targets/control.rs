//! Bodies of requests that are no inference: loads, settings, shared memory, sessions.

use formats::{expansion::Limit, kserve_v2};
use sagemaker::codec::invocations::{models, session::Control};

use super::{Target, json};
use crate::{oracle, seen::Seen};

/// A setting, a name or a file stands as often as the body spells it.
const CONTROL_LIMIT: Limit = Limit { free: 64 << 10, ratio: 80, most: usize::MAX };

/// The first byte says which request it is.
pub(super) const CONTROL: Target = Target {
    name: "control",
    decode: |data| {
        let mut seen = Seen::default();
        let Some((which, body)) = data.split_first() else { return seen };
        seen.fact(which % 10);
        oracle::within(CONTROL_LIMIT, body.len(), || match which % 10 {
            0 => seen.result(kserve_v2::load_request(body).map(|_| ())),
            1 => seen.result(kserve_v2::unload_request(body).map(|_| ())),
            2 => seen.result(kserve_v2::index_request(body).map(|_| ())),
            3 => seen.result(kserve_v2::settings::trace_request(body).map(|_| ())),
            4 => seen.result(kserve_v2::settings::log_request(body).map(|_| ())),
            5 => seen.result(kserve_v2::memory::register_request(body).map(|_| ())),
            6 => seen.result(kserve_v2::memory::cuda_register_request(body).map(|_| ())),
            7 => seen.result(models::load_request(body).map(|_| ())),
            8 => {
                let query = String::from_utf8_lossy(body);
                let pairs = query.split('&').filter_map(|it| it.split_once('='));
                seen.result(models::list_request(pairs).map(|_| ()))
            }
            _ => {
                seen.fact(Control::of(body).is_some());
                None
            }
        });
        seen
    },
    examples: || {
        let bodies = [
            r#"{"parameters":{"config":"{\"name\":\"m\"}","file:1/model.onnx":"AAAA"}}"#,
            r#"{"parameters":{"unload_dependents":true}}"#,
            r#"{"ready":true}"#,
            r#"{"trace_file":"f","trace_level":["TIMESTAMPS"],"trace_rate":"500","trace_count":null}"#,
            r#"{"log_file":"","log_info":true,"log_verbose_level":1,"log_format":"ISO8601"}"#,
            r#"{"key":"/k","offset":0,"byte_size":64}"#,
            r#"{"raw_handle":{"b64":"AAAA"},"device_id":0,"byte_size":64}"#,
            r#"{"model_name":"a","url":"/opt/ml/models/a/model"}"#,
            "limit=10&next_page_token=YQ==",
            r#"{"requestType":"NEW_SESSION"}"#,
        ];
        let numbered = (0u8..).zip(bodies);
        numbered.map(|(it, body)| [&[it], body.as_bytes()].concat()).collect()
    },
    words: json::WORDS,
};
