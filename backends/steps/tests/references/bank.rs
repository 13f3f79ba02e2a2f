//! Outputs of the reference's graph by the tokens of the row, so that any case finds those of its rows.

use std::collections::HashMap;

use backend_steps::{Input, Parameters, Pipeline, Reply, RowError, RowOutput, Step};
use inference::task::Task;
use serde_json::Value;

use crate::fixture::{Fixture, numbers, tensor};

/// Ids and type ids of a row.
type Tokens = (Vec<i64>, Vec<i64>);
/// Shape and values of each of its outputs.
type Outputs = Vec<(Vec<usize>, Vec<f32>)>;

/// The outputs of all rows that a fixture has.
pub struct Bank(HashMap<Tokens, Outputs>);

impl Bank {
    /// Those of the outputs with these names.
    pub fn new(fixture: &Fixture, outputs: &[&str]) -> Bank {
        let lists = fixture.cases.iter().flat_map(|case| [&case["rows"], &case["windows"]]);
        let rows = lists.filter_map(Value::as_array).flatten();
        let entry = |row: &Value| {
            let has_all = outputs.iter().all(|name| row[*name]["raw"].is_string());
            let ids = numbers(&row["ids"]);
            let types = match &row["type_ids"] {
                Value::Null => vec![0; ids.len()],
                types => numbers(types),
            };
            let values = || outputs.iter().map(|name| tensor(&row[*name])).collect();
            has_all.then(|| ((ids, types), values()))
        };
        Bank(rows.filter_map(entry).collect())
    }

    /// The reply to an input; `None` where the fixture lacks the outputs of a row.
    pub fn run(
        &self,
        pipeline: &Pipeline,
        task: Task,
        input: &Input<'_>,
        parameters: &Parameters,
    ) -> Result<Option<Reply>, RowError> {
        let prepared = pipeline.prepare(task, input, parameters)?;
        let mut reduced = Vec::new();
        for row in &prepared.rows {
            let given = |name: &str| {
                let found = row.inputs.iter().find(|it| &*it.name == name).unwrap();
                found.tensor.as_slice_of::<i64>().unwrap().to_vec()
            };
            let key = (given("input_ids"), given("token_type_ids"));
            let Some(outputs) = self.0.get(&key) else { return Ok(None) };
            let outputs: Vec<RowOutput<'_>> = outputs
                .iter()
                .zip(pipeline.outputs())
                .map(|((dims, values), output)| RowOutput {
                    name: &output.name,
                    dims: dims.clone(),
                    values: values.into(),
                })
                .collect();
            reduced.push(pipeline.reduce(&row.work, &outputs)?);
        }
        pipeline.finish(prepared.context, reduced).map(Some)
    }
}

/// The parameters of a request, but those that are part of the input.
pub fn parameters(request: &Value, task: Task) -> Result<Parameters, RowError> {
    let mut parameters = Parameters::default();
    for (name, value) in request["parameters"].as_object().into_iter().flatten() {
        if name != "candidate_labels" {
            parameters.set(task, name, value)?;
        }
    }
    Ok(parameters)
}
