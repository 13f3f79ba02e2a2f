//! What each kind of client of texts is told where its request is refused: the causes of docs/reference/pipelines.md,
//! one after the other, at the addresses of Text Embeddings Inference, OpenAI, Cohere, SageMaker and KServe.

use std::{fs, net::SocketAddr, thread};

use serde_json::{Value, json};

use crate::{
    pipeline_faults::{BAD, with_nan},
    support::{
        Client, Process, Reply, Repository, Server, pipelines::repository, post_head, wait_for,
        wait_queued,
    },
};

/// Whose client asks.
#[derive(Debug, Clone, Copy)]
enum Dialect {
    Tei,
    OpenAi,
    Cohere,
    SageMaker,
    KServe,
}

/// An address, a path, and headers.
type Place = (SocketAddr, &'static str, &'static [(&'static str, &'static str)]);

use Dialect::{Cohere, KServe, OpenAi, SageMaker, Tei};

const ALL: [Dialect; 5] = [Tei, OpenAi, Cohere, SageMaker, KServe];

/// The statuses for [`ALL`], and the names of the error for the first two of them.
struct Said {
    statuses: [u16; 5],
    tei: &'static str,
    openai: &'static str,
}

const VALIDATION: Said =
    Said { statuses: [422, 400, 400, 400, 400], tei: "Validation", openai: INVALID };
const EMPTY: Said = Said { statuses: [400; 5], tei: "Empty", openai: INVALID };
const TOKENIZER: Said =
    Said { statuses: [422, 400, 400, 400, 400], tei: "Tokenizer", openai: INVALID };
const OVERLOADED: Said =
    Said { statuses: [429, 429, 429, 503, 503], tei: "Overloaded", openai: "rate_limit_exceeded" };
const UNHEALTHY: Said = Said { statuses: [503; 5], tei: "Unhealthy", openai: "server_error" };
const RUN_FAILED: Said =
    Said { statuses: [424, 500, 500, 500, 500], tei: "Backend", openai: "server_error" };
const NO_TASK: Said =
    Said { statuses: [424, 404, 404, 400, 400], tei: "Backend", openai: "model_not_found" };
const TOO_LARGE: Said = Said { statuses: [413; 5], tei: "Validation", openai: "request_too_large" };
const INVALID: &str = "invalid_request_error";

impl Dialect {
    /// Where it asks the model `st-6`, of a server with these two ports.
    fn place(self, http: SocketAddr, sagemaker: SocketAddr) -> Place {
        match self {
            Tei => (http, "/v2/models/st-6/embed", &[]),
            OpenAi => (http, "/v2/models/st-6/v1/embeddings", &[]),
            Cohere => (http, "/v2/models/st-6/v2/rerank", &[]),
            KServe => (http, "/v2/models/st-6/infer", &[]),
            SageMaker => {
                const HEADERS: &[(&str, &str)] = &[
                    ("content-type", "application/json"),
                    ("x-amzn-sagemaker-target-model", "st-6"),
                ];
                (sagemaker, "/invocations", HEADERS)
            }
        }
    }

    /// Sends that to the model `st-6`.
    fn send(self, server: &Server, body: impl AsRef<[u8]>) -> Reply {
        let (address, path, headers) = self.place(server.http(), server.sagemaker());
        Client::connect(address).post(path, headers, body)
    }

    /// The body with these texts. `more` stands where this kind of client has what it says besides.
    fn body(self, texts: &[&str], more: &Value) -> Value {
        let with = |mut body: Value| {
            let more = more.as_object().into_iter().flatten();
            more.for_each(|(key, value)| body[key] = value.clone());
            body
        };
        match self {
            Tei => with(json!({"inputs": texts})),
            OpenAi => with(json!({"input": texts})),
            Cohere => with(json!({"query": "a", "documents": texts})),
            SageMaker => json!({"inputs": texts, "parameters": more}),
            KServe => {
                let shape = [texts.len(), 1];
                let text =
                    json!({"name": "text", "datatype": "BYTES", "shape": shape, "data": texts});
                json!({"inputs": [text], "parameters": more})
            }
        }
    }

    fn ask(self, server: &Server, texts: &[&str], more: &Value) -> Reply {
        self.send(server, self.body(texts, more).to_string())
    }
}

/// What a refusal says, after a look at its form.
#[track_caller]
fn check(dialect: Dialect, at: usize, reply: &Reply, said: &Said) -> String {
    assert_eq!(reply.status, said.statuses[at], "{dialect:?}: {}", reply.text());
    let body = reply.json();
    let message = match dialect {
        Tei => {
            assert_eq!(body["error_type"], said.tei, "{body}");
            &body["error"]
        }
        OpenAi => {
            let error = &body["error"];
            let name = if error["code"].is_string() { &error["code"] } else { &error["type"] };
            assert_eq!(name, said.openai, "{body}");
            &error["message"]
        }
        Cohere => {
            assert_eq!(body["message"], body["detail"], "{body}");
            &body["message"]
        }
        SageMaker | KServe => &body["error"],
    };
    message.as_str().unwrap_or_else(|| panic!("{dialect:?} has no message: {body}")).to_owned()
}

/// Each kind of client sends these texts, and is refused like that. What it was told.
#[track_caller]
fn check_all(server: &Server, texts: &[&str], more: &Value, said: &Said) -> Vec<String> {
    let ask = |(at, dialect): (usize, &Dialect)| {
        check(*dialect, at, &dialect.ask(server, texts, more), said)
    };
    ALL.iter().enumerate().map(ask).collect()
}

#[test]
fn each_kind_of_client_hears_of_a_wrong_request_as_from_its_own_server() {
    let flags = ["--max-client-batch-size=4", "--http-max-input-size=64KiB"];
    let server = Server::start(&repository(&["st-6", "sst2"]), &flags);
    let none = json!({});
    for (at, dialect) in ALL.iter().enumerate() {
        for body in ["{", "[]", "{}", r#"{"inputs": 1, "input": 1, "query": 1}"#] {
            check(*dialect, at, &dialect.send(&server, body), &VALIDATION);
        }
        check(*dialect, at, &dialect.send(&server, "a".repeat(70_000)), &TOO_LARGE);
    }
    check_all(&server, &[], &none, &EMPTY);
    for said in check_all(&server, &["a"; 5], &none, &VALIDATION) {
        assert!(said.contains('4'), "{said}");
    }
    // An empty text is a text for those who have no other opinion.
    for (at, dialect) in ALL.iter().enumerate() {
        let reply = dialect.ask(&server, &["a", ""], &none);
        match dialect {
            Tei | OpenAi => drop(check(*dialect, at, &reply, &EMPTY)),
            Cohere | SageMaker | KServe => drop(reply.expect(200)),
        }
    }
    for more in [json!({"dimensions": 0}), json!({"dimensions": 33}), json!({"prompt_name": "x"})] {
        for (at, dialect) in ALL.iter().enumerate() {
            if !matches!(dialect, Cohere) {
                check(*dialect, at, &dialect.ask(&server, &["a"], &more), &VALIDATION);
            }
        }
    }
    let long = "super happy ".repeat(500);
    for (at, dialect) in ALL.iter().enumerate() {
        if !matches!(dialect, Cohere) {
            let reply = dialect.ask(&server, &[&long], &json!({"truncate": false}));
            let said = check(*dialect, at, &reply, &VALIDATION);
            assert!(said.contains("4002 tokens, the model takes 48"), "{said}");
        }
    }
    // After all of that it serves.
    ALL.iter().for_each(|it| drop(it.ask(&server, &["a"], &none).expect(200)));
    // The routes that the other model has are named.
    let other = server.post("/v2/models/sst2/embed", r#"{"inputs": "a"}"#).expect(424).json();
    let place = "text-classification at /v2/models/sst2/predict";
    assert!(other["error"].as_str().unwrap().contains(place), "{other}");
}

#[test]
fn each_kind_of_client_hears_that_its_bytes_are_no_text() {
    let server = Server::start(&repository(&["st-6"]), &[]);
    for (at, dialect) in ALL.iter().enumerate() {
        let body = dialect.body(&["I am \u{1} happy"], &json!({})).to_string();
        let bytes = body.replace("\\u0001", "\u{1}").into_bytes();
        let bytes: Vec<u8> = bytes.into_iter().map(|it| if it == 1 { 0xff } else { it }).collect();
        // Such a body is no JSON.
        let said = check(*dialect, at, &dialect.send(&server, bytes), &VALIDATION);
        assert!(said.contains("UTF-8"), "{said}");
    }
}

#[test]
fn each_kind_of_client_is_told_to_come_back_where_too_many_wait() {
    let flags = ["--scheduler-hold=9", "--default-max-queue-size=1"];
    let server = Server::start(&repository(&["st-6"]), &flags);
    let body = Tei.body(&["a"], &json!({})).to_string();
    let mut waiting = server.client();
    let head = post_head("/v2/models/st-6/embed", &[], body.len());
    waiting.send(head + &body).unwrap();
    wait_queued(server.http(), "st-6", 1);
    for (at, dialect) in ALL.iter().enumerate() {
        let reply = dialect.ask(&server, &["a"], &json!({}));
        check(*dialect, at, &reply, &OVERLOADED);
        let seconds: u64 = reply.header("retry-after").unwrap().parse().unwrap();
        assert!((1..=3).contains(&seconds), "{dialect:?}: {seconds}");
    }
}

#[test]
fn each_kind_of_client_is_told_that_a_model_is_not_ready() {
    let repository = repository(&["st-6", "sst2"]).file("st-6/tokenizer.json", "{}");
    let server = Server::start(&repository, &["--exit-on-error=false"]);
    for said in check_all(&server, &["a"], &json!({}), &UNHEALTHY) {
        assert!(said.contains("st-6"), "{said}");
    }
}

#[test]
fn each_kind_of_client_is_told_that_the_run_of_its_text_failed() {
    let server = Server::start(&with_nan("st-6"), &[]);
    for said in check_all(&server, &["a", BAD], &json!({}), &RUN_FAILED) {
        assert!(said.contains("is not a number at position 0"), "{said}");
    }
    check_all(&server, &[BAD], &json!({}), &RUN_FAILED);
    ALL.iter().for_each(|it| drop(it.ask(&server, &["a"], &json!({})).expect(200)));
}

#[test]
fn each_kind_of_client_is_told_that_the_model_does_something_else() {
    let repository = repository(&["ner"]);
    fs::rename(repository.path().join("ner"), repository.path().join("st-6")).unwrap();
    let server = Server::start(&repository, &[]);
    for (at, dialect) in ALL.iter().enumerate() {
        let (reply, problem) = match dialect {
            Tei | OpenAi => (
                dialect.ask(&server, &["a"], &json!({})),
                "does not do sentence-embedding; it does token-classification at ",
            ),
            Cohere => (
                dialect.ask(&server, &["a"], &json!({})),
                "does not do rerank; it does token-classification at ",
            ),
            // A body says by its keys what it asks for.
            SageMaker => (
                dialect.send(&server, r#"{"inputs": {"query": "a", "texts": ["b"]}}"#),
                "'query' is not an input; the model's inputs are 'text'",
            ),
            // A request names outputs. One that the model has not is a mistake in it, whatever the model is for.
            KServe => {
                let mut body = dialect.body(&["a"], &json!({}));
                body["outputs"] = json!([{"name": "embedding"}]);
                let problem = "unexpected inference output 'embedding' for model 'st-6'";
                (dialect.send(&server, body.to_string()), problem)
            }
        };
        let said = check(*dialect, at, &reply, &NO_TASK);
        assert!(said.contains(problem), "{dialect:?}: {said}");
    }
}

#[test]
fn each_kind_of_client_is_served_while_the_server_stops_and_health_checks_say_that_it_does() {
    let repository = repository(&["st-6"]);
    let mut server = Process::start(&repository, &["--drain-delay-secs=20"], &[]);
    server.wait_ready();
    let (http, sagemaker) = (server.address("http"), server.address("sagemaker"));
    server.signal("TERM");
    wait_for("readiness to fail", || {
        (Client::connect(http).get("/v2/health/ready").status == 503).then_some(())
    });
    for dialect in ALL {
        let body = dialect.body(&["a"], &json!({})).to_string();
        let (address, path, headers) = dialect.place(http, sagemaker);
        let reply = Client::connect(address).post(path, headers, body).expect(200);
        // Nobody asks a second time over a connection that is about to close.
        assert_eq!(reply.header("connection"), Some("close"), "{dialect:?}");
    }
    for (address, path) in [(http, "/health"), (http, "/v2/health/live"), (sagemaker, "/ping")] {
        let reply = Client::connect(address).get(path).expect(503).json();
        assert_eq!(reply["error"], "the server is shutting down", "{path}");
    }
}

#[test]
fn each_kind_of_client_is_told_that_its_token_is_wrong() {
    let repository = repository(&["st-6"]).file("tokens", "inference a-token-of-one-client\n");
    let flag = format!("--auth-tokens-file={}", repository.at("tokens"));
    let server = Server::start(&repository, &[&flag]);
    for dialect in ALL {
        let reply = dialect.ask(&server, &["a"], &json!({})).expect(401);
        match dialect {
            Tei => assert_eq!(reply.body, b""),
            OpenAi => assert_eq!(reply.json()["error"]["code"], "invalid_api_key"),
            Cohere => assert!(reply.json()["message"].is_string()),
            SageMaker | KServe => assert!(reply.json()["error"].is_string()),
        }
    }
}

/// The folder `st-6`, whose tokenizer has an expression that takes twice as long for each letter `x` of a run, and
/// gives up on a long one.
pub fn with_an_expression_that_gives_up() -> Repository {
    let repository = repository(&["st-6"]);
    let path = repository.path().join("st-6/tokenizer.json");
    let mut tokenizer: Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
    // Each letter may be in the one run or in the other.
    let pattern = json!({"Regex": "(?:x+x+)+(?=y)y"});
    let split =
        json!({"type": "Split", "pattern": pattern, "behavior": "Isolated", "invert": false});
    tokenizer["pre_tokenizer"] =
        json!({"type": "Sequence", "pretokenizers": [split, tokenizer["pre_tokenizer"]]});
    repository.file("st-6/tokenizer.json", tokenizer.to_string())
}

#[test]
fn a_text_that_the_tokenizer_gives_up_on_is_refused_and_all_others_are_served() {
    let server = Server::start(&with_an_expression_that_gives_up(), &[]);
    let (good, bad) = ("I am super happy right now.", format!("so {} y", "x".repeat(60)));
    let none = json!({});
    let alone: Vec<String> =
        ALL.iter().map(|it| it.ask(&server, &[good], &none).expect(200).text()).collect();
    thread::scope(|scope| {
        // Clients with good texts ask meanwhile.
        for (dialect, alone) in ALL.iter().zip(&alone) {
            let (server, none) = (&server, &none);
            scope.spawn(move || {
                for _ in 0..20 {
                    let reply = dialect.ask(server, &[good], none).expect(200);
                    // A ranking has an id of its own.
                    if !matches!(dialect, Cohere) {
                        assert_eq!(&reply.text(), alone, "{dialect:?}");
                    }
                }
            });
        }
        for _ in 0..3 {
            for said in check_all(&server, &[&bad], &none, &TOKENIZER) {
                let problem = "a regular expression of it gives up on a part of ";
                assert!(said.contains(problem) && said.contains("send a shorter text"), "{said}");
            }
        }
        // A request of several texts says which.
        let said = check_all(&server, &[good, &bad, good], &none, &TOKENIZER);
        for (dialect, said) in ALL.iter().zip(said) {
            assert!(said.starts_with("text 2"), "{dialect:?}: {said}");
        }
    });
}

#[test]
fn more_blanks_than_an_expression_of_bytes_can_take_are_refused_and_fewer_are_tokens() {
    let server = Server::start(&repository(&["roberta"]), &["--max-text-bytes=8MiB"]);
    let ask = |blanks: usize| {
        let body = json!({"inputs": format!("a{}b", " ".repeat(blanks))}).to_string();
        server.post("/v2/models/roberta/tokenize", body)
    };
    let beyond = ask(4_300_000).expect(422).json();
    assert_eq!(beyond["error_type"], "Tokenizer");
    let said = beyond["error"].as_str().unwrap();
    assert!(said.contains("gives up on a part of 4300002 bytes"), "{said}");
    assert!(said.contains("shorter runs of blanks"), "{said}");
    let tokens = ask(3).expect(200).json();
    assert_eq!(tokens[0].as_array().unwrap().len(), 5, "{tokens}");
    // The model serves as before.
    server.post("/v2/models/roberta/pipeline", r#"{"inputs": "so happy"}"#).expect(200);
}
