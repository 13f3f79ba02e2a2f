//! That no body of texts takes more memory while it is decoded than is asked for. Memory is measured, not
//! computed.

use std::sync::Arc;

use bytes::Bytes;

use super::{
    hub, openai,
    tei::{tokens, vertex},
    terms,
};
use formats::samples::{self, Peak, within_grant};
use inference::{signature::Signature, task::Task};

/// Bytes that work holds at once.
const PEAK: Peak = |work| allocation_counter::measure(work).bytes_max;

#[test]
fn no_body_takes_more_memory_than_is_asked_for() {
    let signature = samples::pipeline(Task::SentenceEmbedding, &["text BYTES [1]"], &[]);
    let signature = Signature { most_rows: Some(1 << 20), ..signature };
    let terms = Arc::new(terms::sample());
    let keys = (0..5_000).map(|it| format!("\"{it:x}\":0")).collect::<Vec<_>>().join(",");
    let (digits, ids) = ("1".repeat(40_000), "1,".repeat(20_000));
    for body in [
        format!(r#"{{"inputs":"a","parameters":{{{keys}}}}}"#),
        format!(r#"{{"inputs":"a","parameters":{{"x":[{digits}]}}}}"#),
        format!(r#"{{"inputs":"{digits}","truncation_direction":"{digits}"}}"#),
    ] {
        within_grant(PEAK, 0, "hub", |grant| {
            hub::decode(&signature, None, terms.clone(), body.as_bytes(), grant)
        });
    }
    for body in [
        format!(r#"{{"input":[[{digits}]]}}"#),
        format!(r#"{{"input":[{ids}1]}}"#),
        format!(r#"{{{keys},"input":["{digits}","{digits}"]}}"#),
    ] {
        within_grant(PEAK, 0, "embeddings", |grant| {
            openai::decode(&signature, terms.clone(), body.as_bytes(), grant)
        });
    }
    for body in [format!(r#"{{"instances":[{ids}1]}}"#), format!("{{{keys}}}")] {
        let body = Bytes::from(body);
        within_grant(PEAK, 0, "instances", |grant| vertex::instances(&body, grant));
    }
    let (ones, empty) = ("[1],".repeat(20_000), "\"\",".repeat(20_000));
    let escapes = "\\u00e9".repeat(10_000);
    for body in [
        format!("{{{keys}}}"),
        format!(r#"{{"inputs":["{digits}",{empty}"a"]}}"#),
        format!(r#"{{"inputs":["{escapes}","{escapes}"],"prompt_name":"{escapes}"}}"#),
        format!(r#"{{"ids":[{ids}1]}}"#),
        format!(r#"{{"ids":[{ones}[1]]}}"#),
    ] {
        for most in [4, 1 << 20] {
            let body = body.as_bytes();
            within_grant(PEAK, 0, "tokenize", |grant| tokens::read_tokenize(body, most, grant));
            within_grant(PEAK, 0, "decode", |grant| tokens::read_decode(body, most, grant));
        }
    }
}
