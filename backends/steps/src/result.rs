//! The output `result`: what the pipeline says of one input, as JSON with the keys and the numbers of the reference.

use inference::task::{IMAGE_EMBEDS, TEXT_EMBEDS};

use crate::{
    python_float,
    reply::{Answer, Entity, Fill, Label, Object, Reply, Towers},
};

/// A reply as JSON.
pub fn result_json(reply: &Reply, form: &ResultForm<'_>) -> String {
    let mut out = String::with_capacity(room(reply));
    match reply {
        Reply::Labels(labels) => match (form.is_best_only, labels.first()) {
            (true, Some(best)) => label(&mut out, best),
            _ => list(&mut out, labels, label),
        },
        Reply::Candidates(labels) => candidates(&mut out, form.text, labels),
        Reply::ImageCandidates(labels) => list(&mut out, labels, |out, it| {
            object(out, |out| {
                score(out, it.score);
                text(out, "label", &it.label);
            });
        }),
        Reply::Embedding(values) => list(&mut out, values, number),
        Reply::Features(features) => {
            out.push('[');
            let rows: Vec<&[f32]> = features.values.chunks_exact(features.width.max(1)).collect();
            list(&mut out, &rows, |out, row| list(out, row, number));
            out.push(']');
        }
        Reply::Pooled(values) => {
            out.push('[');
            list(&mut out, values, number);
            out.push(']');
        }
        Reply::Similarities(values) => list(&mut out, values, number),
        Reply::Ranking(ranked) => list(&mut out, ranked, |out, it| {
            object(out, |out| {
                integer(out, "index", it.index);
                score(out, it.score);
            });
        }),
        Reply::Entities(entities) => list(&mut out, entities, entity),
        Reply::Answers(answers) => match answers.as_slice() {
            [only] => answer(&mut out, only),
            answers => list(&mut out, answers, answer),
        },
        Reply::Fills(masks) => match masks.as_slice() {
            [only] => list(&mut out, only, fill),
            masks => list(&mut out, masks, |out, it| list(out, it, fill)),
        },
        Reply::Sparse(entries) => list(&mut out, entries, |out, it| {
            object(out, |out| {
                integer(out, "index", it.index as usize);
                key(out, "value");
                number(out, &it.value);
            });
        }),
        Reply::Towers(rows) => rows.iter().for_each(|it| towers(&mut out, it)),
        Reply::Objects(objects) => list(&mut out, &objects.found, object_in_image),
        Reply::Transcript(said) => object(&mut out, |out| text(out, "text", said)),
    }
    out
}

/// Bytes that the JSON of a reply of many numbers takes, most of them of 17 digits; some for any other.
fn room(reply: &Reply) -> usize {
    const NUMBER: usize = 23;
    match reply {
        Reply::Embedding(values) | Reply::Similarities(values) => 2 + NUMBER * values.len(),
        Reply::Towers(rows) => {
            rows.iter().map(|it| 64 + NUMBER * (it.image.len() + it.text.len())).sum()
        }
        Reply::Features(features) => 6 + 2 * features.tokens + NUMBER * features.values.len(),
        _ => 64,
    }
}

/// What of the request stands in the reply, or decides its form.
#[derive(Debug, Clone, Copy)]
pub struct ResultForm<'a> {
    /// The text that was asked about.
    pub text: &'a str,
    /// Is the best class the reply, as an object, and no list of classes?
    pub is_best_only: bool,
}

fn label(out: &mut String, it: &Label) {
    object(out, |out| {
        text(out, "label", &it.label);
        score(out, it.score);
    });
}

fn candidates(out: &mut String, sequence: &str, labels: &[Label]) {
    object(out, |out| {
        text(out, "sequence", sequence);
        key(out, "labels");
        list(out, labels, |out, it| string(out, &it.label));
        key(out, "scores");
        list(out, labels, |out, it| number(out, &it.score));
    });
}

fn entity(out: &mut String, it: &Entity) {
    object(out, |out| {
        text(out, if it.index.is_some() { "entity" } else { "entity_group" }, &it.label);
        score(out, it.score);
        if let Some(index) = it.index {
            integer(out, "index", index);
        }
        text(out, "word", &it.word);
        integer(out, "start", it.start);
        integer(out, "end", it.end);
    });
}

fn answer(out: &mut String, it: &Answer) {
    object(out, |out| {
        score(out, it.score);
        integer(out, "start", it.start);
        integer(out, "end", it.end);
        text(out, "answer", &it.answer);
    });
}

fn fill(out: &mut String, it: &Fill) {
    object(out, |out| {
        score(out, it.score);
        integer(out, "token", it.token as usize);
        text(out, "token_str", &it.token_str);
        text(out, "sequence", &it.sequence);
    });
}

/// Corners are whole pixels, towards zero, as the reference has them.
fn object_in_image(out: &mut String, it: &Object) {
    object(out, |out| {
        score(out, it.score);
        text(out, "label", &it.label);
        key(out, "box");
        object(out, |out| {
            for (name, corner) in ["xmin", "ymin", "xmax", "ymax"].into_iter().zip(it.corners) {
                key(out, name);
                out.push_str(&(corner as i64).to_string());
            }
        });
    });
}

/// As the outputs of the reference's model are called, in its order.
fn towers(out: &mut String, it: &Towers) {
    object(out, |out| {
        for (name, values) in [(TEXT_EMBEDS, &it.text), (IMAGE_EMBEDS, &it.image)] {
            if !values.is_empty() {
                key(out, name);
                list(out, values, number);
            }
        }
    });
}

fn score(out: &mut String, value: f32) {
    key(out, "score");
    number(out, &value);
}

fn text(out: &mut String, name: &str, value: &str) {
    key(out, name);
    string(out, value);
}

fn integer(out: &mut String, name: &str, value: usize) {
    key(out, name);
    out.push_str(&value.to_string());
}

fn number(out: &mut String, value: &f32) {
    python_float::write(out, f64::from(*value));
}

fn string(out: &mut String, value: &str) {
    // Writing a text to a buffer cannot fail.
    out.push_str(&serde_json::to_string(value).unwrap_or_default());
}

/// The name of a field, which needs no escapes.
fn key(out: &mut String, name: &str) {
    if !out.ends_with('{') {
        out.push(',');
    }
    out.push('"');
    out.push_str(name);
    out.push_str("\":");
}

fn object(out: &mut String, fields: impl FnOnce(&mut String)) {
    out.push('{');
    fields(out);
    out.push('}');
}

fn list<T>(out: &mut String, items: &[T], mut item: impl FnMut(&mut String, &T)) {
    out.push('[');
    for (at, it) in items.iter().enumerate() {
        if at > 0 {
            out.push(',');
        }
        item(out, it);
    }
    out.push(']');
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reply::{Features, Objects, Ranked, SparseEntry};

    const ONE: ResultForm<'_> = ResultForm { text: "a \"b\"", is_best_only: true };

    fn labels() -> Vec<Label> {
        let label = |label: &str, score| Label { label: label.into(), class: 0, score };
        vec![label("POSITIVE", 0.75), label("NEGATIVE", 1e-5)]
    }

    #[track_caller]
    fn says(reply: Reply, expected: &str) {
        assert_eq!(result_json(&reply, &ONE), expected);
    }

    #[test]
    fn classes_are_the_best_one_or_a_list() {
        says(Reply::Labels(labels()), r#"{"label":"POSITIVE","score":0.75}"#);
        let all = result_json(&Reply::Labels(labels()), &ResultForm { is_best_only: false, ..ONE });
        let small = "9.999999747378752e-06";
        let second = format!(r#"{{"label":"NEGATIVE","score":{small}}}"#);
        assert_eq!(all, format!(r#"[{{"label":"POSITIVE","score":0.75}},{second}]"#));
        let expected = format!(
            r#"{{"sequence":"a \"b\"","labels":["POSITIVE","NEGATIVE"],"scores":[0.75,{small}]}}"#
        );
        says(Reply::Candidates(labels()), &expected);
    }

    #[test]
    fn the_corners_of_an_object_are_whole_pixels_towards_zero() {
        let corners = [-0.9, 1.99, 30.5, 40.0];
        let object = Object { label: "cat".into(), class: 1, score: 0.5, corners };
        let text = r#"[{"score":0.5,"label":"cat","box":{"xmin":0,"ymin":1,"xmax":30,"ymax":40}}]"#;
        says(Reply::Objects(Objects { found: vec![object], size: [50, 50] }), text);
        says(Reply::Transcript("A \"B\"".to_owned()), r#"{"text":"A \"B\""}"#);
    }

    #[test]
    fn vectors_are_lists() {
        says(Reply::Embedding(vec![0.5, -1.0]), "[0.5,-1.0]");
        let features =
            Features { tokens: 2, width: 2, values: vec![0.0, 1.0, 2.0, 3.0], pooled: Vec::new() };
        says(Reply::Features(features), "[[[0.0,1.0],[2.0,3.0]]]");
        says(Reply::Ranking(vec![Ranked { index: 1, score: 0.5 }]), r#"[{"index":1,"score":0.5}]"#);
        says(
            Reply::Sparse(vec![SparseEntry { index: 7, value: 2.0 }]),
            r#"[{"index":7,"value":2.0}]"#,
        );
    }

    #[test]
    fn one_answer_is_an_object_and_several_are_a_list() {
        let answer = Answer { score: 0.5, start: 1, end: 3, answer: "bc".to_owned() };
        let text = r#"{"score":0.5,"start":1,"end":3,"answer":"bc"}"#;
        says(Reply::Answers(vec![answer.clone()]), text);
        says(Reply::Answers(vec![answer.clone(), answer]), &format!("[{text},{text}]"));
        let entity = Entity {
            label: "B-PER".into(),
            score: 0.5,
            index: Some(3),
            word: "Ann".to_owned(),
            start: 0,
            end: 3,
        };
        let group = Entity { label: "PER".into(), index: None, ..entity.clone() };
        says(
            Reply::Entities(vec![entity, group]),
            concat!(
                r#"[{"entity":"B-PER","score":0.5,"index":3,"word":"Ann","start":0,"end":3},"#,
                r#"{"entity_group":"PER","score":0.5,"word":"Ann","start":0,"end":3}]"#,
            ),
        );
    }
}
