//! Bodies with texts, as clients of other servers of texts send them, and the replies to them.

use std::{iter, sync::Arc};

use backend::{NamedTensor, Shape, Tensor};
use bytes::Bytes;
use embeddings::codec::{
    hub, infinity, openai, rerank,
    tei::{embed, per_token, predict, similarity, tokens, vertex},
    terms::Terms,
};
use formats::{EncodedReply, body_model, expansion, json::JsonReader};
use inference::{
    error::Error,
    grant::Grant,
    request::{InferenceRequest, InferenceResponse},
    signature::Signature,
    task::{EMBEDDING, LABEL, RESULT, SCORE, TOKENS, Task},
};

use super::{Target, invocations::invoke_on, json};
use crate::{
    oracle::{self, LOOSE},
    pipelines,
    requests::echo,
    seen::Seen,
};

/// Dialects of bodies.
const DIALECTS: u8 = 19;

/// What bodies to the hub are sent as.
const CONTENT_TYPES: [Option<&str>; 4] =
    [None, Some("application/json"), Some("image/png"), Some("audio/wav; rate=16000")];

/// An input taken apart: a pipeline, what is asked of it, and how.
struct Input<'a> {
    signature: Signature,
    asked: Option<Task>,
    content_type: Option<&'static str>,
    body: &'a [u8],
}

/// Bodies of OpenAI's embeddings, of Text Embeddings Inference, of rankings, of infinity, of the hub, of Vertex AI, of
/// `/invocations`. The first byte says which, the second one for which pipeline.
pub(super) const TEXTS: Target = Target {
    name: "texts",
    decode: |data| {
        let mut seen = Seen::default();
        let [dialect, model, body @ ..] = data else { return seen };
        let pipelines = pipelines::numbers().end;
        let asked = usize::from(model / pipelines).checked_sub(1);
        let input = Input {
            signature: pipelines::pipeline(model % pipelines, dialect / DIALECTS % 2 == 1),
            asked: asked.and_then(|it| Task::ALL.get(it % Task::ALL.len()).copied()),
            content_type: CONTENT_TYPES[usize::from(dialect / DIALECTS / 2) % CONTENT_TYPES.len()],
            body,
        };
        seen.fact(dialect % DIALECTS);
        decode(&mut seen, dialect % DIALECTS, &input);
        seen
    },
    examples,
    words: &json::with_signs::<{ json::count(KEYS) }>(KEYS),
};

/// Keys and values of these bodies.
const KEYS: &[&str] = &[
    "\"",
    "\\u0000",
    "\\ud83d\\ude00",
    "é",
    "1e400",
    "\"a\"",
    "[1,2]",
    "\"inputs\":",
    "\"input\":",
    "\"parameters\":",
    "\"query\":",
    "\"texts\":",
    "\"documents\":",
    "\"text\":",
    "\"text_1\":",
    "\"text_2\":",
    "\"instances\":",
    "\"ids\":",
    "\"source_sentence\":",
    "\"sentences\":",
    "\"question\":",
    "\"context\":",
    "\"candidate_labels\":",
    "\"top_n\":",
    "\"top_k\":",
    "\"return_documents\":true",
    "\"return_text\":true",
    "\"raw_scores\":",
    "\"truncate\":",
    "\"truncation_direction\":\"Left\"",
    "\"prompt_name\":",
    "\"input_type\":\"search_query\"",
    "\"encoding_format\":\"base64\"",
    "\"dimensions\":",
    "\"normalize\":",
    "\"max_tokens_per_doc\":",
    "\"model\":",
    "\u{89}PNG\r\n",
    "RIFF",
    "[[[[[[[[[[",
];

fn decode(seen: &mut Seen, dialect: u8, input: &Input<'_>) {
    match dialect {
        0 => run(seen, input, openai::decode, openai::encode),
        1 => run(seen, input, embed::decode, embed::encode),
        2 => run(seen, input, per_token::decode_all, per_token::encode_all),
        3 => run(seen, input, per_token::decode_sparse, per_token::encode_sparse),
        4 => run(seen, input, predict::decode, predict::encode),
        5 => run(seen, input, similarity::decode, similarity::encode),
        6 => run(seen, input, rerank::decode_documents, rerank::encode),
        7 => run(seen, input, rerank::decode_v1, rerank::encode),
        8 => run(seen, input, rerank::decode_v2, rerank::encode),
        9 => run(seen, input, rerank::decode_texts, rerank::encode),
        10 => run(seen, input, rerank::decode_score, rerank::encode_score),
        11 => run(seen, input, infinity::decode, infinity::encode),
        12 => {
            let decode = |signature: &Signature, terms, body: &[u8], grant: &Grant| {
                hub::decode_body(signature, input.asked, input.content_type, terms, body, grant)
            };
            run(seen, input, decode, hub::encode);
        }
        13 => {
            let read = oracle::within_grant(0, |grant| {
                tokens::read_tokenize(input.body, most(input), grant)
            });
            seen.fact(read.as_ref().map_or(0, |it| it.texts.len().min(3)));
            seen.result(read);
        }
        14 => {
            let read = oracle::within_grant(0, |grant| {
                tokens::read_decode(input.body, most(input), grant)
            });
            seen.fact(read.as_ref().map_or(0, |it| it.lists.len().min(3)));
            seen.result(read);
        }
        15 => {
            let body = Bytes::copy_from_slice(input.body);
            let read = oracle::within_grant(0, |grant| vertex::instances(&body, grant));
            if let Some(bodies) = seen.result(read) {
                assert!((1..=most(input)).contains(&bodies.len()), "as many as may be");
                let all: usize = bodies.iter().map(Bytes::len).sum();
                assert!(all < input.body.len(), "parts of the body");
                seen.fact(bodies.len().min(3));
            }
        }
        16 | 17 => {
            // Of the container of Hugging Face, and of no container.
            let choice = if dialect == 16 { 3 } else { 0 };
            let answer = |request: InferenceRequest| answer(&request);
            let Input { signature, content_type, body, .. } = input;
            invoke_on(seen, signature, choice, *content_type, body, answer);
        }
        _ => {
            seen.result(oracle::within_asked(0, || body_model::model_name(input.body)));
        }
    }
}

/// Texts of a request at most.
fn most(input: &Input<'_>) -> usize {
    input.signature.most_rows.unwrap_or(usize::MAX)
}

/// Decodes a body, and encodes what a model may answer.
fn run<F>(
    seen: &mut Seen,
    input: &Input<'_>,
    decode: impl Fn(&Signature, Arc<Terms>, &[u8], &Grant) -> Result<(InferenceRequest, F), Error>,
    encode: fn(&F, &Signature, &InferenceResponse, &Grant) -> Result<EncodedReply, Error>,
) {
    let Input { signature, body, .. } = input;
    let terms = Arc::new(Terms {
        shown_name: "m".into(),
        truncates: true,
        device: "cpu",
        prompts: vec!["query".to_owned()],
    });
    let decoded = oracle::within_grant(0, |grant| {
        expansion::hold_ports(signature, grant)?;
        decode(signature, terms, body, grant)
    });
    let Some((request, format)) = seen.result(decoded) else { return };
    seen.fact((request.inputs.len(), request.parameters.len().min(8), request.task));
    let answered = answer(&request);
    if let Some(reply) = seen.result(encode(&format, signature, &answered, &Grant::all(LOOSE))) {
        let json = reply.body.concat();
        let read = JsonReader::document(&json, &Grant::uncounted(), |reader| reader.skip_value());
        read.unwrap_or_else(|error| panic!("{error}: {}", String::from_utf8_lossy(&json)));
    }
}

/// An answer with the outputs that a request names.
fn answer(request: &InferenceRequest) -> InferenceResponse {
    let rows = request.inputs.first().and_then(|it| it.tensor.shape().rows()).unwrap_or(1);
    let numbers =
        |each: usize| Tensor::from_vec(Shape::new(&[rows, each]), vec![0.5f32; rows * each]);
    let texts = |each: usize, text: &'static str| {
        Tensor::from_strings(Shape::new(&[rows, each]), iter::repeat_n(text, rows * each))
    };
    let pairs = request.inputs.get(1).map_or(2, |it| it.tensor.elements() / rows.max(1));
    let of = |name: &str| match name {
        EMBEDDING => numbers(3),
        SCORE => numbers(pairs),
        LABEL => texts(pairs, "a\"b"),
        RESULT => texts(1, r#"{"labels":["a","b"],"scores":[0.5,0.25]}"#),
        TOKENS => Tensor::from_vec(Shape::new(&[rows, 1]), vec![7i64; rows]),
        other => panic!("no task gives '{other}'"),
    };
    let named = |name: &Arc<str>| NamedTensor {
        name: name.clone(),
        tensor: of(name).expect("as many elements as the shape says"),
    };
    echo(request.outputs.iter().map(named).collect())
}

fn examples() -> Vec<Vec<u8>> {
    // Bodies, and the dialects that they are of.
    let bodies: [(&[u8], &str); 27] = [
        (
            &[0, 11, 18],
            r#"{"input":["a","é"],"model":"m","encoding_format":"base64","dimensions":2}"#,
        ),
        (&[0, 11], r#"{"input":[[1,2],[3]],"input_type":"search_query","user":"u"}"#),
        (&[0, 11], r#"{"input":[1,2,3],"raw_scores":true,"truncate":false}"#),
        (
            &[1, 2, 3, 12, 13, 16],
            r#"{"inputs":"a text","truncate":true,"truncation_direction":"Left"}"#,
        ),
        (&[1, 2, 3, 12, 13, 16], r#"{"inputs":["a","b"],"normalize":false,"prompt_name":"query"}"#),
        (&[1, 2, 3], r#"{"inputs":[[1,2],[3,4]],"dimensions":2}"#),
        (&[4, 12], r#"{"inputs":["a","b"],"raw_scores":true}"#),
        (&[4], r#"{"inputs":[["a"],["b","c"]]}"#),
        (
            &[5, 12],
            r#"{"inputs":{"source_sentence":"a","sentences":["b","c"]},"parameters":{"prompt_name":"query"}}"#,
        ),
        (&[6, 9, 12], r#"{"query":"a","texts":["b","c"],"return_text":true,"raw_scores":true}"#),
        (
            &[6, 7, 8],
            r#"{"query":"a","documents":["b",{"text":"c","id":1}],"top_n":1,"return_documents":true}"#,
        ),
        (&[7, 8], r#"{"query":"a","documents":["b"],"max_tokens_per_doc":7,"model":"m"}"#),
        (&[10], r#"{"text_1":"a","text_2":["b","c"]}"#),
        (&[10], r#"{"text_1":["a","b"],"text_2":["c","d"]}"#),
        (
            &[12, 16, 17],
            r#"{"inputs":"a","parameters":{"top_k":2,"candidate_labels":["b","c"],"x":{"y":[1]}}}"#,
        ),
        (&[12, 16, 17], r#"{"inputs":{"question":"a","context":"b"}}"#),
        (&[12, 16, 17], r#"{"inputs":{"question":["a","b"],"context":"c"}}"#),
        (
            &[12, 16, 17],
            r#"{"inputs":[{"question":"a","context":"b"},{"question":"c","context":"d"}]}"#,
        ),
        (&[12, 16, 17], r#"{"inputs":"iVBORw0KGgo=","parameters":{"candidate_labels":["a","b"]}}"#),
        (&[12, 16, 17], r#"{"inputs":{"image":"iVBORw0KGgo=","text":"a"}}"#),
        (&[12, 16, 17], r#"{"inputs":["UklGRgQAAABXQVZF"],"options":{"wait_for_model":true}}"#),
        (&[13], r#"{"inputs":["a","b"],"add_special_tokens":false,"prompt_name":"query"}"#),
        (&[14], r#"{"ids":[[1,2],[3]],"skip_special_tokens":false}"#),
        (&[14], r#"{"ids":[1,2,3]}"#),
        (&[15], r#"{"instances":[{"inputs":"a"},{"inputs":["b","c"]}]}"#),
        (&[18], r#"{"model":"m/3","inputs":[]}"#),
        (&[12, 4], "\u{1}PNG\r\n"),
    ];
    let mut all = Vec::new();
    for (dialects, body) in bodies {
        for (dialect, model) in
            dialects.iter().flat_map(|it| pipelines::numbers().map(move |model| (it, model)))
        {
            all.push([&[*dialect, model], body.as_bytes()].concat());
        }
    }
    for file in [&b"\x89PNG\r\n\x1a\n\0"[..], b"RIFF\x04\0\0\0WAVE", b"\xff\xd8\xff\xe0"] {
        all.extend(pipelines::numbers().map(|model| [&[12, model], file].concat()));
    }
    all.extend(json::kserve_bodies().iter().map(|it| [&[12, 0], &it[..]].concat()));
    all
}
