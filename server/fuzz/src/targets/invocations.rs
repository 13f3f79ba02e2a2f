//! Bodies of `/invocations`, in every dialect.

use bytes::Bytes;
use inference::{
    grant::Grant,
    request::{InferenceRequest, InferenceResponse},
    signature::Signature,
};
use sagemaker::codec::invocations::{self, Dialect, InferenceType, Invocation, Options};

use super::{Target, json};
use crate::{
    oracle::{self, LOOSE},
    requests::{Input, echo, inputs},
    seen::Seen,
    signatures::numbers,
};

/// State and buffers of an inflation, which are not asked for.
const INFLATION: usize = 64 << 10;

const DIALECTS: [Option<Dialect>; 7] = [
    None,
    Some(Dialect::Tfs),
    Some(Dialect::Triton),
    Some(Dialect::HuggingFace),
    Some(Dialect::Toolkit),
    Some(Dialect::Xgboost),
    Some(Dialect::Mlflow),
];

/// A body of that type. The choice of the input is a dialect, a batch job, Triton's inference type.
pub(super) fn invoke(content_type: Option<&str>, data: &[u8]) -> Seen {
    let mut seen = Seen::default();
    let Some(Input { signature, choice, body }) = Input::of(data) else { return seen };
    let answer = |request: InferenceRequest| echo(request.inputs);
    invoke_on(&mut seen, &signature, choice, content_type, body, answer);
    seen
}

/// A body of that type for that model, which answers so.
pub(super) fn invoke_on(
    seen: &mut Seen,
    signature: &Signature,
    choice: u8,
    content_type: Option<&str>,
    body: &[u8],
    answer: impl Fn(InferenceRequest) -> InferenceResponse,
) {
    let choice = usize::from(choice);
    let options = Options {
        dialect: DIALECTS[choice % DIALECTS.len()],
        batch: choice / 7 % 2 == 1,
        inference_type: match choice / 14 % 3 {
            0 => InferenceType::Infer,
            1 => InferenceType::Generate,
            _ => InferenceType::GenerateStream,
        },
        largest_body: Some(1 << 20),
        ..Options::default()
    };
    let accept =
        (choice / 42 % 2 == 1).then_some("text/csv, application/jsonlines;q=0.5, */*;q=0.1");
    let Some(invocation) = seen.result(Invocation::read(content_type, accept, None)) else {
        return;
    };
    let body = Bytes::copy_from_slice(body);
    // An error may repeat the content type, and what inflates an archive is small.
    let inflation = if body.windows(2).any(|it| it == b"PK") { INFLATION } else { 0 };
    let beside = 4 * content_type.unwrap_or_default().len() + inflation;
    let decoded = oracle::within_grant(beside, |grant| {
        invocations::decode(signature, &invocation, &options, body, grant)
    });
    let Some((request, format)) = seen.result(decoded) else { return };
    seen.fact((request.inputs.len(), format!("{format:?}").chars().take(12).collect::<String>()));
    seen.result(invocations::encode(&format, signature, &answer(request), &Grant::all(LOOSE)));
}

/// Examples for all models, in some dialects.
pub(super) fn examples(bodies: &[Vec<u8>]) -> Vec<Vec<u8>> {
    let mut all = inputs(numbers(), [0, 43], bodies);
    all.extend(inputs([0, 3, 4], 0..42, bodies));
    all
}

fn texts<const N: usize>(bodies: [&str; N]) -> Vec<Vec<u8>> {
    bodies.map(|it| it.as_bytes().to_vec()).to_vec()
}

fn json_bodies() -> Vec<Vec<u8>> {
    let mut bodies = texts([
        "[[1.0,2.0]]",
        r#"{"instances":[{"features":[1,2]},{"features":[3,4]}]}"#,
        r#"{"instances":[{"data":{"features":{"keys":[1,5],"shape":[10],"values":[1.5,2]}}}]}"#,
        r#"{"features":[1,2]}"#,
        r#"{"inputs":"some text","parameters":{"top_k":2,"truncation":true}}"#,
        r#"{"inputs":["a","b"]}"#,
        r#"{"dataframe_split":{"columns":["x","p"],"index":[0],"data":[[1.5,2]]}}"#,
        r#"{"dataframe_records":[{"x":1.5,"p":2},{"x":2}]}"#,
        "{\"x\":1}\n{\"x\":2}\n",
        "[1,2,3]\n[4,5,6]",
        "1 2 3",
    ]);
    bodies.extend(json::kserve_bodies());
    bodies.extend(json::tfs_bodies());
    bodies
}

/// JSON of any dialect, and JSON lines.
pub(super) const JSON: Target = Target {
    name: "invocations-json",
    decode: |data| match data {
        [lines, rest @ ..] if *lines % 2 == 1 => invoke(Some("application/jsonlines"), rest),
        [_, rest @ ..] => invoke(Some("application/json"), rest),
        [] => Seen::default(),
    },
    examples: || {
        let all = examples(&json_bodies());
        [0, 1].iter().flat_map(|it| all.iter().map(|body| [&[*it], &body[..]].concat())).collect()
    },
    words: json::WORDS,
};

/// Bodies without a content type, or with a text in front that is one.
pub(super) const ANY: Target = Target {
    name: "invocations-any",
    decode: |data| {
        let end = data.iter().position(|it| *it == b'\n');
        let (head, rest) = data.split_at(end.unwrap_or(0));
        invoke(
            std::str::from_utf8(head).ok().filter(|it| !it.is_empty()),
            rest.get(1..).unwrap_or(rest),
        )
    },
    examples: || {
        let mut all = Vec::new();
        let types = [
            "",
            "application/octet-stream",
            "application/x-image",
            "text/plain",
            "text/csv; header=present",
        ];
        let types = types.into_iter().chain([
            "application/vnd.sagemaker-triton.binary+json;json-header-size=20",
            "multipart/form-data",
        ]);
        for content_type in types {
            for body in inputs([0, 3, 5], [0, 1, 3, 5, 6], &json_bodies()) {
                all.push([content_type.as_bytes(), b"\n", &body].concat());
            }
        }
        all
    },
    words: &[
        "application/",
        "json",
        "text/",
        "csv",
        "; header=present",
        ";charset=utf-8",
        "x-npy",
        "x-npz",
        "libsvm",
        "x-recordio-protobuf",
        "\n",
        "json-header-size=",
        "x-text",
        "octet-stream",
        "{",
        "}",
        "[",
        "]",
        ",",
        "\"",
    ],
};

/// CSV.
pub(super) const CSV: Target = Target {
    name: "csv",
    decode: |data| {
        let mut seen = invoke(Some("text/csv"), data);
        let Some(Input { signature, body, .. }) = Input::of(data) else { return seen };
        let table = oracle::within_grant(0, |it| formats::csv::decode_table(&signature, body, it));
        seen.result(table);
        seen
    },
    examples: || {
        examples(&texts([
            "1,2\n3,4\n",
            "x,p\r\n1,2\r\n",
            "\"a,b\",\"\"\"c\"\"\"\n\"\",d\n",
            "1;2;3",
            "inputs,labels\nhello,1\n",
            "0.1,1e3,nan\n\n,,\n",
        ]))
    },
    words: &[
        ",", "\n", "\r\n", "\"", "\"\"", ";", "\t", " ", "x", "p", "nan", "1e400", "-", "0.1",
        "inputs", "true",
    ],
};

/// libsvm.
pub(super) const LIBSVM: Target = Target {
    name: "libsvm",
    decode: |data| invoke(Some("text/libsvm"), data),
    examples: || {
        examples(&texts([
            "1 0:1.5 2:3\n0 1:2\n",
            "1 1:1 2:2 3:3 # words\n",
            "1:1\n",
            "0 qid:3 5:1e3\n\n1\n",
            "1:0.5 1 999:1\n",
        ]))
    },
    words: &[
        ":",
        " ",
        "\n",
        "0:1 ",
        "1000:1",
        "16777215:1",
        "4294967295:1",
        "qid:",
        "#",
        "-1",
        "1e400",
        "nan",
        "\t",
    ],
};
