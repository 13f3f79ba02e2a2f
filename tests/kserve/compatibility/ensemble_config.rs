//! Triton's suite `L0_model_config`: ensembles that it expects to be refused, and those that it expects to load, under
//! the names that its cases have.

use super::{fields::reason, model_config::index_with};
use crate::support::{Repository, Server};

/// A step: the model, and the pairs of its own name and that of the ensemble's tensor.
fn step(model: &str, inputs: &[(&str, &str)], outputs: &[(&str, &str)]) -> String {
    let map = |what: &str, pairs: &[(&str, &str)]| -> String {
        let pair = |(own, tensor): &(&str, &str)| {
            format!("{what} {{ key: \"{own}\" value: \"{tensor}\" }} ")
        };
        pairs.iter().map(pair).collect()
    };
    let (inputs, outputs) = (map("input_map", inputs), map("output_map", outputs));
    format!("step {{ model_name: \"{model}\" model_version: -1 {inputs}{outputs}}} ")
}

/// An ensemble of these steps with these inputs and outputs, and what else is in its configuration.
fn ensemble(inputs: &[&str], outputs: &[&str], steps: &[String], more: &str) -> String {
    let ports = |what: &str, names: &[&str]| -> String {
        let port =
            |it: &&str| format!("{what} {{ name: \"{it}\" data_type: TYPE_FP32 dims: [ 16 ] }} ");
        names.iter().map(port).collect()
    };
    let (inputs, outputs) = (ports("input", inputs), ports("output", outputs));
    let scheduling = format!("ensemble_scheduling {{ {} }}", steps.concat());
    format!("platform: \"ensemble\" max_batch_size: 2 {inputs}{outputs}{scheduling} {more}")
}

/// A member whose ports have this type and these dimensions.
fn member(inputs: usize, outputs: usize, fields: &str, rows: usize) -> String {
    let ports = |what: &str, count: usize| -> String {
        (0..count).map(|it| format!("{what} {{ name: \"{what}{it}\" {fields} }} ")).collect()
    };
    let (inputs, outputs) = (ports("input", inputs), ports("output", outputs));
    format!("backend: \"identity\" max_batch_size: {rows} {inputs}{outputs}")
}

#[test]
fn ensembles_whose_tensors_lead_nowhere_are_refused() {
    const IN: (&str, &str) = ("input0", "data");
    const OUT: (&str, &str) = ("output0", "prob");
    let one = |input: &str, output: &str| step("one", &[("input0", input)], &[("output0", output)]);
    let split = |input: &str, outputs: [&str; 3]| {
        let names = ["output0", "output1", "output2"];
        let pairs: Vec<(&str, &str)> = names.into_iter().zip(outputs).collect();
        step("split", &[("input0", input)], &pairs)
    };
    let join = |inputs: &[(&str, &str)]| step("join", inputs, &[OUT]);
    let four = [("input0", "t1"), ("input1", "t2"), ("input2", "t3"), ("input3", "t4")];
    let good = || vec![one("data", "t4"), split("data", ["t1", "t2", "t3"]), join(&four)];
    let with = |more: String| [vec![more], good()].concat();
    let plain = |steps: &[String]| ensemble(&["data"], &["prob"], steps, "");
    let more = |text: &str| ensemble(&["data"], &["prob"], &[one("data", "prob")], text);
    let two = |steps: &[String]| ensemble(&["data"], &["prob", "prob_2"], steps, "");
    let nameless = |from: &str| plain(&[one("data", "prob")]).replace(from, "");
    let typed = |name: &str, fields: &str| {
        format!("{name} {{ name: \"{}\" {fields} }}", if name == "input" { "data" } else { "prob" })
    };
    let versioned = |version: &str, name: &str| {
        let steps = [one("data", "t"), one("t", "prob")].concat();
        let steps = steps.replace("\"one\"", &format!("\"{name}\"")).replacen("-1", version, 1);
        plain(&[steps])
    };
    let fp32_16 = "data_type: TYPE_FP32 dims: [ 16 ]";
    let cases = [
        (
            "ensemble_scheduling_no_set",
            format!(
                "platform: \"ensemble\" {} {}",
                typed("input", fp32_16),
                typed("output", fp32_16)
            ),
            "needs ensemble_scheduling",
        ),
        ("no_step", plain(&[]), "no step"),
        (
            "no_step_2",
            plain(&[]).replace("ensemble_scheduling {  }", "ensemble_scheduling { }"),
            "no step",
        ),
        ("has_backend", more("backend: \"identity\""), "backend"),
        (
            "instance_group_set",
            more("instance_group { count: 1 kind: KIND_CPU }"),
            "instance_group",
        ),
        ("optimization_set", more("optimization { graph { level: 1 } }"), "optimization"),
        (
            "model_warm_up_set",
            more(
                "model_warmup { name: \"zeros\" batch_size: 1 inputs { key: \"data\" value { data_type: TYPE_FP32 dims: [ 16 ] zero_data: true } } }",
            ),
            "model_warmup",
        ),
        (
            "optional_input",
            plain(&[one("data", "prob")])
                .replace("name: \"data\"", "name: \"data\" optional: true"),
            "optional",
        ),
        ("no_model_name", nameless("model_name: \"one\""), "model_name"),
        ("no_input_map", nameless("input_map { key: \"input0\" value: \"data\" }"), "input_map"),
        (
            "no_output_map",
            nameless("output_map { key: \"output0\" value: \"prob\" }"),
            "output_map",
        ),
        (
            "output_to_tensor_overmapped",
            plain(&[
                one("data", "t4"),
                one("data", "t1"),
                split("data", ["t2", "t2", "t3"]),
                join(&four),
            ]),
            "'t2'",
        ),
        // An input that is mapped twice has the last entry, as entries of protobuf's maps do. So nothing reads 't5'.
        (
            "tensor_to_input_overmapped",
            plain(&[
                one("data", "t4"),
                one("t4", "t5"),
                split("data", ["t1", "t2", "t3"]),
                join(&[four[0], four[1], four[2], ("input3", "t5"), ("input3", "t4")]),
            ]),
            "'t5'",
        ),
        ("redundant_tensor_as_input", plain(&with(one("t5", "t6"))), "'t5'"),
        (
            "redundant_tensor_as_output",
            two(&[one("data", "t1"), split("t1", ["prob", "prob_2", "t2"])]),
            "'t2'",
        ),
        ("unreachable_input", ensemble(&["data", "data_2"], &["prob"], &good(), ""), "data_2"),
        ("unreachable_output", two(&good()), "prob_2"),
        ("unreachable_output_2", two(&with(one("prob_2", "prob_2"))), "prob_2"),
        ("unreachable_output_3", two(&with(one("not_written", "prob_2"))), "not_written"),
        ("unmapped_input", plain(&[split("data", ["t1", "t2", "t3"]), join(&four[..3])]), "input3"),
        ("invalid_input_map", plain(&[step("one", &[("not_there", "data")], &[OUT])]), "not_there"),
        ("invalid_output_map", plain(&[step("one", &[IN], &[("not_there", "prob")])]), "not_there"),
        ("non_existing_model", plain(&[step("not_there", &[IN], &[OUT])]), "not_there"),
        (
            "inconsistent_data_type",
            plain(&[one("data", "t"), step("int", &[("input0", "t")], &[OUT])]),
            "INT32",
        ),
        (
            "inconsistent_shape",
            plain(&[one("data", "t"), step("three", &[("input0", "t")], &[OUT])]),
            "'t'",
        ),
        ("no_required_version", versioned("2", "one"), "version 2"),
        ("no_required_version_2", versioned("2", "all_versions"), "version 2"),
        ("no_required_version_3", versioned("7", "all_versions"), "version 7"),
        (
            "self_circular_dependency",
            plain(&[step("self_circular_dependency", &[IN], &[OUT])]),
            "self_circular_dependency",
        ),
        (
            "circular_dependency",
            plain(&[step("circular_dependency_2", &[("data", "data")], &[("prob", "prob")])]),
            "circular_dependency",
        ),
        (
            "circular_dependency_2",
            plain(&[step("circular_dependency", &[("data", "data")], &[("prob", "prob")])]),
            "circular_dependency",
        ),
        ("one", member(1, 1, fp32_16, 4), ""),
        ("split", member(1, 3, fp32_16, 4), ""),
        ("join", member(4, 1, fp32_16, 4), ""),
        ("int", member(1, 1, "data_type: TYPE_INT32 dims: [ 16 ]", 4), ""),
        ("three", member(1, 1, "data_type: TYPE_FP32 dims: [ 16, 1, 1 ]", 4), ""),
        ("all_versions", member(1, 1, fp32_16, 4) + " version_policy { all { } }", ""),
    ];
    let (members, cases): (Vec<_>, Vec<_>) = cases
        .into_iter()
        .map(|(name, config, part)| (name.to_owned(), config, part))
        .partition(|it| it.2.is_empty());
    let models: Vec<(String, String)> = members
        .iter()
        .chain(&cases)
        .map(|(name, config, _)| (name.clone(), config.clone()))
        .collect();
    let (server, index) = index_with(&models);
    for (name, _, _) in &members {
        server.get(&format!("/v2/models/{name}/ready")).expect(200);
    }
    let wrong: Vec<String> = cases
        .iter()
        .map(|(name, _, part)| (name, part, reason(&index, name)))
        .filter(|(_, part, reason)| reason.is_empty() || !reason.contains(**part))
        .map(|(name, part, reason)| format!("{name}: no '{part}' in '{reason}'"))
        .collect();
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// Without the flag a request that is too large for a member runs in parts.
#[test]
fn an_ensemble_that_takes_more_rows_than_a_member_is_refused_where_rows_are_bounded() {
    let fp32_16 = "data_type: TYPE_FP32 dims: [ 16 ]";
    let steps = [step("one", &[("input0", "data")], &[("output0", "prob")])];
    let of = |rows: usize| {
        ensemble(&["data"], &["prob"], &steps, "")
            .replace("max_batch_size: 2", &format!("max_batch_size: {rows}"))
    };
    let repository = Repository::new()
        .model("one", &member(1, 1, fp32_16, 4))
        .model("good", &of(4))
        .model("invalid_batch_size", &of(8));
    let flags = ["--strict-max-batch-size=true", "--strict-readiness=false"];
    let server = Server::start(&repository, &flags);
    let index = server.post("/v2/repository/index", "").expect(200).json();
    let told = reason(&index, "invalid_batch_size");
    assert!(told.contains("max_batch_size is 8") && told.contains("'one' takes 4"), "{told}");
    server.get("/v2/models/good/ready").expect(200);
}

/// An output that nothing of an ensemble reads is no mistake, nor is an ensemble in an ensemble, nor one open size.
#[test]
fn ensembles_that_fit_are_served() {
    let fp32_16 = "data_type: TYPE_FP32 dims: [ 16 ]";
    let open = "data_type: TYPE_FP32 dims: [ -1, 16 ]";
    let one = |model: &str, input: &str, output: &str| {
        step(model, &[("input0", input)], &[("output0", output)])
    };
    let inner = step("inner_ensemble", &[("data", "t")], &[("prob", "prob")]);
    let alone = |steps: &[String]| {
        ensemble(&["data"], &["prob"], steps, "").replace("max_batch_size: 2", "max_batch_size: 0")
    };
    let models = [
        ("one", member(1, 1, fp32_16, 4)),
        ("split", member(1, 3, fp32_16, 4)),
        ("alone", member(1, 1, open, 0)),
        ("inner_ensemble", ensemble(&["data"], &["prob"], &[one("one", "data", "prob")], "")),
        (
            "embedded_ensemble",
            ensemble(&["data"], &["prob"], &[one("one", "data", "t"), inner], ""),
        ),
        ("unmapped_output", ensemble(&["data"], &["prob"], &[one("split", "data", "prob")], "")),
        // Triton refuses this one, and so does `--strict-max-batch-size`.
        (
            "invalid_batch_size",
            ensemble(&["data"], &["prob"], &[one("one", "data", "prob")], "")
                .replace("max_batch_size: 2", "max_batch_size: 8"),
        ),
        (
            "inconsistent_shape",
            alone(&[one("alone", "data", "t"), one("one", "t", "prob")])
                .replace("dims: [ 16 ]", "dims: [ -1, 16 ]"),
        ),
        (
            "inconsistent_shape_2",
            alone(&[one("one", "data", "t"), one("alone", "t", "prob")])
                .replace("dims: [ 16 ]", "dims: [ -1, 16 ]"),
        ),
    ];
    let models = models.map(|(name, config)| (name.to_owned(), config));
    let (server, index) = index_with(&models);
    for (name, _) in &models {
        assert_eq!(reason(&index, name), "", "{name}");
        server.get(&format!("/v2/models/{name}/ready")).expect(200);
    }
}
