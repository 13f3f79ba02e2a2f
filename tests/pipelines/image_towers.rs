//! Folders with a tower for images and one for texts: the vectors of both in one request, and of each alone, against
//! what the model of transformers gives for both at once.

use std::fs;

use base64::{Engine, engine::general_purpose::STANDARD};
use serde_json::{Value, json};

use crate::{
    image_pipelines::picture,
    support::{
        Client, Server,
        pipelines::{agrees, fixtures, repository},
    },
};

/// The lines of a folder: `picture`, `text` and `reply`.
fn lines(model: &str) -> Vec<Value> {
    let lines = fs::read_to_string(fixtures().join(model).join("embeddings.jsonl")).unwrap();
    lines.lines().map(|it| serde_json::from_str(it).unwrap()).collect()
}

fn encoded(line: &Value) -> Value {
    STANDARD.encode(picture(line["picture"].as_str().unwrap())).into()
}

/// What the model says of these inputs in JSON.
fn ask(client: &mut Client, path: &str, inputs: &Value) -> Value {
    let headers = [("content-type", "application/json")];
    client.post(path, &headers, json!({"inputs": inputs}).to_string()).expect(200).json()
}

#[test]
fn images_and_texts_become_vectors_together_and_each_alone_as_in_the_model() {
    let server = Server::start(&repository(&["clip", "siglip"]), &[]);
    let mut client = server.client();
    for model in ["clip", "siglip"] {
        let lines = lines(model);
        let replies: Vec<Value> = lines.iter().map(|it| it["reply"].clone()).collect();
        let path = format!("/v2/models/{model}/pipeline");
        let both = lines.iter().map(|it| json!({"image": encoded(it), "text": it["text"]}));
        let given = ask(&mut client, &path, &both.collect());
        assert!(agrees(&given, &json!(replies)), "{model}: {given}");
        // All texts share a run, in which the shorter ones are padded.
        let texts = lines.iter().map(|it| json!({"text": it["text"]})).collect();
        let given = ask(&mut client, &path, &texts);
        let only = |name: &str| replies.iter().map(|it| json!({name: it[name]})).collect::<Value>();
        assert!(agrees(&given, &only("text_embeds")), "{model}: {given}");
        let one = ask(&mut client, &path, &json!({"text": lines[1]["text"]}));
        assert!(agrees(&one, &only("text_embeds")[1]), "{model}: {one}");
        let images = lines.iter().map(|it| json!({"image": encoded(it)})).collect();
        let given = ask(&mut client, &format!("{path}/image-text-embedding"), &images);
        assert!(agrees(&given, &only("image_embeds")), "{model}: {given}");
    }
}

#[test]
fn the_vectors_of_towers_are_outputs_by_name() {
    let server = Server::start(&repository(&["clip"]), &[]);
    let mut client = server.client();
    let lines = lines("clip");
    let values = |name: &str| {
        let rows = lines.iter().map(|it| it["reply"][name].as_array().unwrap().clone());
        Value::Array(rows.flatten().collect())
    };
    // Pictures as binary data in front of the texts, where there are some.
    let mut ask = |outputs: &[&str], with_image: bool, with_text: bool| {
        let (rows, mut data) = (lines.len(), Vec::new());
        let mut inputs = Vec::new();
        if with_image {
            for line in &lines {
                let file = picture(line["picture"].as_str().unwrap());
                data.extend((file.len() as u32).to_le_bytes());
                data.extend(file);
            }
            let size = json!({"binary_data_size": data.len()});
            inputs.push(json!({"name": "image", "datatype": "BYTES", "shape": [rows, 1], "parameters": size}));
        }
        if with_text {
            let texts: Value = lines.iter().map(|it| it["text"].clone()).collect();
            inputs.push(
                json!({"name": "text", "datatype": "BYTES", "shape": [rows, 1], "data": texts}),
            );
        }
        let outputs: Vec<Value> = outputs.iter().map(|it| json!({"name": it})).collect();
        let head = json!({"inputs": inputs, "outputs": outputs}).to_string();
        let length = head.len().to_string();
        let headers = [("inference-header-content-length", length.as_str())];
        let body = [head.as_bytes(), &data].concat();
        client.post("/v2/models/clip/infer", &headers, body)
    };
    for (outputs, with_image, with_text) in [
        (&["image_embeds", "text_embeds"][..], true, true),
        (&["image_embeds"], true, false),
        (&["text_embeds"], false, true),
    ] {
        let reply = ask(outputs, with_image, with_text).expect(200).json();
        assert_eq!(reply["outputs"].as_array().unwrap().len(), outputs.len());
        for (at, name) in outputs.iter().enumerate() {
            let output = &reply["outputs"][at];
            assert_eq!(
                (&output["name"], &output["shape"]),
                (&json!(name), &json!([lines.len(), 16]))
            );
            assert!(agrees(&output["data"], &values(name)), "{output}");
        }
    }
    let error = ask(&["image_embeds"], false, true).error(400);
    assert!(error.contains("missing required input(s) ['image']"), "{error}");
    // A picture without labels is for nothing else, unless its outputs say so.
    let error = ask(&["label"], true, false).error(400);
    assert!(error.contains("candidate_labels"), "{error}");
}

#[test]
fn a_text_of_towers_that_is_too_long_is_named_and_a_task_makes_all_of_it_an_embedder() {
    let server = Server::start(&repository(&["clip"]), &["--task", "image-text-embedding"]);
    let mut client = server.client();
    let line = lines("clip").remove(2);
    let headers = [("content-type", "image/png")];
    let file = picture(line["picture"].as_str().unwrap());
    let given = client.post("/v2/models/clip/pipeline", &headers, file).expect(200).json();
    let expected = json!({"image_embeds": line["reply"]["image_embeds"]});
    assert!(agrees(&given, &expected), "{given}");
    let inputs = json!({"inputs": [{"text": "cat"}, {"text": "cat ".repeat(60)}]}).to_string();
    let headers = [("content-type", "application/json")];
    let error = client.post("/v2/models/clip/pipeline", &headers, inputs).error(400);
    assert!(error.contains("text 2: the input has 123 tokens, the model takes 40"), "{error}");
    let inputs = json!({"inputs": {"text": "cat ".repeat(60)}, "parameters": {"truncation": true}});
    client.post("/v2/models/clip/pipeline", &headers, inputs.to_string()).expect(200);
}
