//! Pipelines whose graph gives what is no number, whose run fails, whose client leaves while its images are prepared,
//! or of which more is asked than can be prepared: it concerns these requests alone.

use std::{
    io::Write,
    sync::atomic::{AtomicUsize, Ordering},
    thread,
};

use serde_json::{Value, json};

use crate::{
    image_pipelines::{ask, picture, said},
    support::{
        Client, Page, Process, Repository, Server, pipelines::repository, post_head, wait_for,
    },
};

/// That folder, whose graph gives NaN for each text with the word "model", and for any other text what it gave before.
pub fn with_nan(model: &str) -> Repository {
    let repository = repository(&[model]);
    let folder = repository.path().join(model);
    let tokenizer = std::fs::read(folder.join("tokenizer.json")).unwrap();
    let tokenizer: Value = serde_json::from_slice(&tokenizer).unwrap();
    let id = tokenizer["model"]["vocab"]["model"].as_u64().unwrap() as usize;
    let places = ["model.onnx", "onnx/model.onnx"].map(|it| folder.join(it));
    let place = places.into_iter().find(|it| it.is_file()).unwrap();
    let mut graph = std::fs::read(&place).unwrap();
    // The raw data of a tensor follow its name: a tag, their length in seven bits a byte, and the numbers.
    const NAME: &[u8] = b"word_embeddings.weight\x4a";
    let mut at = graph.windows(NAME.len()).position(|it| it == NAME).unwrap() + NAME.len();
    let mut length = 0;
    for shift in (0..).step_by(7) {
        let byte = graph[at];
        at += 1;
        length |= usize::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            break;
        }
    }
    let rows = tokenizer["model"]["vocab"].as_object().unwrap().len();
    let width = length / rows;
    graph[at + id * width..][..4].copy_from_slice(&f32::NAN.to_le_bytes());
    std::fs::write(place, graph).unwrap();
    repository
}

/// A text for which the graph of [`with_nan`] gives NaN.
pub const BAD: &str = "What a model day!";
const GOOD: &str = "I am super happy right now.";

#[test]
fn a_text_whose_answer_is_no_number_fails_alone_among_the_texts_of_its_run() {
    let repository = with_nan("sst2");
    let body = |text: &str| json!({"inputs": text}).to_string();
    let alone = {
        let server = Server::start(&repository, &[]);
        server.post("/v2/models/sst2/pipeline", body(GOOD)).expect(200).text()
    };
    // The first run begins when all texts wait: they share it.
    let server = Server::start(&repository, &["--scheduler-hold=6"]);
    let texts = [GOOD, BAD, GOOD, BAD, GOOD, GOOD];
    let path = "/v2/models/sst2/pipeline";
    let mut clients: Vec<Client> = texts
        .iter()
        .map(|text| {
            let (mut client, body) = (server.client(), body(text));
            client.send(post_head(path, &[], body.len()) + &body).unwrap();
            client
        })
        .collect();
    for (text, client) in texts.iter().zip(&mut clients) {
        let reply = client.reply();
        if *text == GOOD {
            assert_eq!(reply.expect(200).text(), alone);
            continue;
        }
        let problem = reply.error(500);
        assert!(problem.contains("output 'logits' is not a number at position 0"), "{problem}");
    }
    assert_eq!(Page::read(server.http()).of("sst2", "muster_batch_rows_sum"), 6.0);
}

#[test]
fn a_failed_run_has_the_status_of_the_server_that_was_asked() {
    let repository = with_nan("sst2");
    let invoked = |server: &Server| {
        let headers = [("content-type", "application/json")];
        let body = json!({"inputs": BAD}).to_string();
        Client::connect(server.sagemaker()).post("/invocations", &headers, body)
    };
    let server = Server::start(&repository, &[]);
    invoked(&server).error(500);
    let body = json!({"inputs": BAD}).to_string();
    let reply = server.post("/predict", body).expect(424).json();
    assert_eq!(reply["error_type"], "Backend", "{reply}");
    let body =
        json!({"inputs": [{"name": "text", "shape": [1, 1], "datatype": "BYTES", "data": [BAD]}]});
    server.post("/v2/models/sst2/infer", body.to_string()).error(500);
    let body = json!({"input": BAD}).to_string();
    let reply = server.post("/v1/classify", body).expect(500).json();
    assert!(reply.to_string().contains("not a number"), "{reply}");
    drop(server);
    // The container of Hugging Face answers 400 to whatever its pipeline says no to.
    let server = Server::start(&repository, &["--sagemaker-dialect=hf"]);
    let problem = invoked(&server).error(400);
    assert!(problem.contains("not a number"), "{problem}");
}

/// A PNG of so many black pixels in a square: small as a file, and long to decode.
fn black_square(side: u32) -> Vec<u8> {
    let mut png = b"\x89PNG\r\n\x1a\n".to_vec();
    let mut chunk = |name: &[u8; 4], data: &[u8]| {
        png.extend((data.len() as u32).to_be_bytes());
        let start = png.len();
        png.extend(name);
        png.extend(data);
        let mut sum = flate2::Crc::new();
        sum.update(&png[start..]);
        png.extend(sum.sum().to_be_bytes());
    };
    let size = [side.to_be_bytes(), side.to_be_bytes()].concat();
    chunk(b"IHDR", &[&size[..], &[8, 2, 0, 0, 0]].concat());
    let mut packed = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::fast());
    let row = vec![0; 1 + 3 * side as usize];
    (0..side).for_each(|_| packed.write_all(&row).unwrap());
    chunk(b"IDAT", &packed.finish().unwrap());
    chunk(b"IEND", &[]);
    png
}

/// A request of KServe v2 with so many rows of that image.
fn request(model: &str, image: &[u8], rows: usize) -> Vec<u8> {
    let size = rows * (image.len() + 4);
    let head = json!({"inputs": [{"name": "image", "shape": [rows, 1], "datatype": "BYTES",
                                  "parameters": {"binary_data_size": size}}]})
    .to_string();
    let length = head.len().to_string();
    let headers = [
        ("content-type", "application/octet-stream"),
        ("inference-header-content-length", length.as_str()),
    ];
    let path = format!("/v2/models/{model}/infer");
    let mut request = post_head(&path, &headers, head.len() + size).into_bytes();
    request.extend(head.as_bytes());
    for _ in 0..rows {
        request.extend(u32::try_from(image.len()).unwrap().to_le_bytes());
        request.extend(image);
    }
    request
}

/// Waits until so many pieces of work wait for the threads that prepare them.
fn wait_preparing(server: &Server, expected: usize) {
    wait_for(&format!("{expected} pieces of work that wait to be prepared"), || {
        let waiting = Page::read(server.http()).value("muster_pipeline_prepare_queue");
        (waiting == expected as f64).then_some(())
    });
}

#[test]
fn large_pictures_delay_no_health_check_and_no_text() {
    const PICTURES: usize = 6;
    let server = Server::start(&repository(&["vit", "sst2"]), &["--tokenization-workers=1"]);
    // So many that each thread that talks to clients has one.
    let mut checks: Vec<Client> = (0..8).map(|_| server.client()).collect();
    let request = request("vit", &black_square(1500), 1);
    let answered = AtomicUsize::new(0);
    thread::scope(|scope| {
        for _ in 0..PICTURES {
            let mut client = server.client();
            client.send(&request).unwrap();
            let answered = &answered;
            scope.spawn(move || {
                client.reply().expect(200);
                answered.fetch_add(1, Ordering::Relaxed);
            });
        }
        // One is decoded, and all others wait for that.
        wait_preparing(&server, PICTURES - 1);
        for it in &mut checks {
            it.get("/v2/health/live").expect(200);
            it.post("/v2/models/sst2/generate", &[], r#"{"text": "so happy"}"#).expect(200);
        }
        assert!(answered.load(Ordering::Relaxed) < PICTURES, "every picture went before a check");
    });
}

#[test]
fn images_that_are_prepared_for_a_client_that_leaves_are_given_up() {
    let server = Server::start(&repository(&["vit"]), &["--tokenization-workers=1"]);
    // To decode all of these takes longer than any client of these tests waits.
    let images = request("vit", &black_square(2000), ROWS);
    let leave = [server.client(), server.client()].map(|mut client| {
        client.send(&images).unwrap();
        client
    });
    // The only thread has begun with one of them when the other one waits for it.
    wait_preparing(&server, 1);
    let (small, mut stays) = (picture("64x64.png"), server.client());
    stays.send(request("vit", &small, 1)).unwrap();
    wait_preparing(&server, 2);
    drop(leave);
    stays.reply().expect(200);
    said(&ask(&mut server.client(), "vit", &small, &json!({})).expect(200));
    // Nobody else's image has come as far as a run.
    let page = Page::read(server.http());
    assert_eq!(page.of("vit", "muster_batch_rows_sum"), 2.0);
}

const ROWS: usize = 200;

#[test]
fn rows_that_company_changes_are_told_in_the_log() {
    let repository = repository(&["quantized"]);
    let graphs = repository.path().join("quantized/onnx");
    std::fs::rename(graphs.join("model_quantized.onnx"), graphs.join("model.onnx")).unwrap();
    let mut server = Process::start(&repository, &[], &[]);
    server.wait_ready();
    let line = server.wait_for_line("depends on the others of its run");
    let says = "texts run with those of their own length and request only";
    assert!(line.contains("model=quantized") && line.contains(says), "{line}");
}

#[test]
fn texts_that_would_wait_for_too_long_are_refused_before_they_are_prepared() {
    let flags = ["--tokenization-workers=1", "--max-queue-wait-ms=5"];
    let server = Server::start(&repository(&["sst2"]), &flags);
    // Enough for a thread of its own, and for some milliseconds there.
    let texts = vec![GOOD.repeat(40); 32];
    let body = json!({"inputs": texts, "parameters": {"truncation": true}}).to_string();
    let path = "/v2/models/sst2/pipeline";
    // How long that takes is known from then on.
    let answer = server.post(path, &*body).expect(200).text();
    let refused = AtomicUsize::new(0);
    let ask = || {
        let reply = server.client().post(path, &[], &body);
        match reply.status {
            200 => assert_eq!(reply.text(), answer),
            _ => {
                assert!(reply.header("retry-after").is_some());
                let error = reply.error(503);
                let is_early = error.contains("ms of it until its inputs are prepared");
                refused.fetch_add(usize::from(is_early), Ordering::Relaxed);
            }
        }
    };
    // Of so many at once some find others waiting, if not the first time.
    let round = || thread::scope(|it| (0..16).for_each(|_| drop(it.spawn(ask))));
    let is_refused = || {
        round();
        0 < refused.load(Ordering::Relaxed)
    };
    assert!((0..20).any(|_| is_refused()), "none was refused");
    let page = Page::read(server.http());
    assert!(refused.load(Ordering::Relaxed) as f64 <= page.failures("sst2", "REJECTED"));
    assert_eq!(server.post(path, body).expect(200).text(), answer);
}

#[test]
fn pictures_that_unfold_beyond_the_bytes_of_all_requests_are_refused_and_no_byte_stays_taken() {
    const CLIENTS: usize = 8;
    // Room for few of the pictures at a time, and threads for all of them.
    let flags = ["--max-inflight-bytes=24MiB", "--tokenization-workers=8"];
    let server = Server::start(&repository(&["vit"]), &flags);
    let picture = request("vit", &black_square(1500), 1);
    let refused = AtomicUsize::new(0);
    let ask = || {
        let mut client = server.client();
        client.send(&picture).unwrap();
        let reply = client.reply();
        if reply.status == 200 {
            return;
        }
        assert!(reply.header("retry-after").is_some(), "{}", reply.text());
        let problem = reply.error(503);
        assert!(problem.contains("decoding the files of the request"), "{problem}");
        assert!(problem.contains("--max-inflight-bytes"), "{problem}");
        refused.fetch_add(1, Ordering::Relaxed);
    };
    let is_refused = || {
        // Each of them has an answer, or this does not end.
        thread::scope(|it| (0..CLIENTS).for_each(|_| drop(it.spawn(ask))));
        0 < refused.load(Ordering::Relaxed)
    };
    assert!((0..20).any(|_| is_refused()), "none was refused");
    wait_for("all bytes to be given back", || {
        (Page::read(server.http()).value("muster_bytes_in_flight") == 0.0).then_some(())
    });
    // One after the other all of them are answered.
    for _ in 0..CLIENTS {
        let mut client = server.client();
        client.send(&picture).unwrap();
        client.reply().expect(200);
    }
    let page = Page::read(server.http());
    assert_eq!(page.failures("vit", "REJECTED"), refused.load(Ordering::Relaxed) as f64);
}
