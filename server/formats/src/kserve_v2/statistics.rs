//! The reply of the statistics extension.

use crate::{EncodedReply, json::write};
use inference::statistics::{BatchStatistics, MemoryUsage, ResponseStatistics, Statistics, Total};

/// `{"model_stats": [..]}`: model, version and what has been counted of it.
pub fn model_statistics<'a>(
    models: impl IntoIterator<Item = (&'a str, u64, Statistics)>,
) -> EncodedReply {
    let mut out = b"{\"model_stats\":[".to_vec();
    for (name, version, statistics) in models {
        write::item(&mut out);
        out.push(b'{');
        write::key(&mut out, "name");
        write::string(&mut out, name);
        write::key(&mut out, "version");
        write::string(&mut out, &version.to_string());
        model(&mut out, &statistics);
        out.push(b'}');
    }
    out.extend_from_slice(b"]}");
    EncodedReply::json(out)
}

fn model(out: &mut Vec<u8>, it: &Statistics) {
    write::key(out, "last_inference");
    write::number(out, it.last_inference_ms);
    write::key(out, "inference_count");
    write::number(out, it.inference_count);
    write::key(out, "execution_count");
    write::number(out, it.execution_count);
    write::key(out, "inference_stats");
    let durations = [
        ("success", it.success),
        ("fail", it.fail),
        ("queue", it.queue),
        ("compute_input", it.compute_input),
        ("compute_infer", it.compute_infer),
        ("compute_output", it.compute_output),
        ("cache_hit", it.cache_hit),
        ("cache_miss", it.cache_miss),
    ];
    out.push(b'{');
    durations.iter().for_each(|(name, total)| duration(out, name, *total));
    out.push(b'}');
    write::key(out, "response_stats");
    out.push(b'{');
    for it in &it.responses {
        write::key(out, &it.place.to_string());
        response(out, it);
    }
    out.push(b'}');
    write::key(out, "batch_stats");
    list(out, &it.batches, batch);
    write::key(out, "memory_usage");
    list(out, &it.memory, memory);
}

fn response(out: &mut Vec<u8>, it: &ResponseStatistics) {
    let durations = [
        ("compute_infer", it.compute_infer),
        ("compute_output", it.compute_output),
        ("success", it.success),
        ("fail", it.fail),
        ("empty_response", it.empty_response),
        ("cancel", it.cancel),
    ];
    out.push(b'{');
    durations.iter().for_each(|(name, total)| duration(out, name, *total));
    out.push(b'}');
}

fn batch(out: &mut Vec<u8>, it: &BatchStatistics) {
    write::key(out, "batch_size");
    write::number(out, it.rows);
    duration(out, "compute_input", it.compute_input);
    duration(out, "compute_infer", it.compute_infer);
    duration(out, "compute_output", it.compute_output);
}

fn memory(out: &mut Vec<u8>, it: &MemoryUsage) {
    write::key(out, "type");
    write::string(out, it.kind);
    write::key(out, "id");
    write::number(out, it.id);
    write::key(out, "byte_size");
    write::number(out, it.bytes);
}

fn duration(out: &mut Vec<u8>, name: &str, Total { count, ns }: Total) {
    write::key(out, name);
    out.push(b'{');
    write::key(out, "count");
    write::number(out, count);
    write::key(out, "ns");
    write::number(out, ns);
    out.push(b'}');
}

/// An array of objects, whose keys `write` appends.
fn list<T>(out: &mut Vec<u8>, items: &[T], write: fn(&mut Vec<u8>, &T)) {
    out.push(b'[');
    for it in items {
        write::item(out);
        out.push(b'{');
        write(out, it);
        out.push(b'}');
    }
    out.push(b']');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_field_has_its_name() {
        let total = |count| Total { count, ns: 10 * count };
        let statistics = Statistics {
            last_inference_ms: 1,
            inference_count: 2,
            execution_count: 3,
            success: total(4),
            fail: total(5),
            queue: total(6),
            compute_input: total(7),
            compute_infer: total(8),
            compute_output: total(9),
            cache_hit: total(10),
            cache_miss: total(11),
            batches: vec![BatchStatistics {
                rows: 12,
                compute_input: total(13),
                compute_infer: total(14),
                compute_output: total(15),
            }],
            responses: vec![ResponseStatistics {
                place: 7,
                compute_infer: total(17),
                compute_output: total(18),
                success: total(19),
                fail: total(20),
                empty_response: total(21),
                cancel: total(22),
            }],
            memory: vec![MemoryUsage { kind: "GPU", id: 0, bytes: 16 }],
        };
        let reply = model_statistics([("m", 3, statistics)]);
        let expected = concat!(
            r#"{"model_stats":[{"name":"m","version":"3","last_inference":1,"inference_count":2,"#,
            r#""execution_count":3,"inference_stats":{"success":{"count":4,"ns":40},"#,
            r#""fail":{"count":5,"ns":50},"queue":{"count":6,"ns":60},"#,
            r#""compute_input":{"count":7,"ns":70},"compute_infer":{"count":8,"ns":80},"#,
            r#""compute_output":{"count":9,"ns":90},"cache_hit":{"count":10,"ns":100},"#,
            r#""cache_miss":{"count":11,"ns":110}},"response_stats":{"7":{"#,
            r#""compute_infer":{"count":17,"ns":170},"compute_output":{"count":18,"ns":180},"#,
            r#""success":{"count":19,"ns":190},"fail":{"count":20,"ns":200},"#,
            r#""empty_response":{"count":21,"ns":210},"cancel":{"count":22,"ns":220}}},"#,
            r#""batch_stats":[{"batch_size":12,"compute_input":{"count":13,"ns":130},"#,
            r#""compute_infer":{"count":14,"ns":140},"compute_output":{"count":15,"ns":150}}],"#,
            r#""memory_usage":[{"type":"GPU","id":0,"byte_size":16}]}]}"#
        );
        assert_eq!(String::from_utf8(reply.body.concat()).unwrap(), expected);
        assert_eq!(model_statistics([]).body.concat(), br#"{"model_stats":[]}"#);
    }
}
