//! Sequence batching in configurations: what is completed, and every way in which it is refused.

use super::*;
use serving::config::model::Scheduling;

/// A model that adds up, with its controls and its state.
fn adder() -> ModelSpec {
    use DataType::{Int32, Uint64};
    model(
        &[
            tensor("x", Int32, &[-1, 1]),
            tensor("start", Int32, &[-1, 1]),
            tensor("id", Uint64, &[-1, 1]),
            tensor("past", Int32, &[-1, 1]),
        ],
        &[tensor("y", Int32, &[-1, 1]), tensor("now", Int32, &[-1, 1])],
    )
}

const START: &str = "control_input { name: 'start' control { kind: CONTROL_SEQUENCE_START int32_false_true: [ 0, 1 ] } }";
const ID: &str =
    "control_input { name: 'id' control { kind: CONTROL_SEQUENCE_CORRID data_type: TYPE_UINT64 } }";
const STATE: &str = "state { input_name: 'past' output_name: 'now' data_type: TYPE_INT32 dims: 1 }";

fn read(text: &str) -> Result<Completed, ConfigErrors> {
    completed("m", text, Some(&adder()), &Defaults::default())
}

#[track_caller]
fn refused(batching: &str, problems: &[&str]) {
    let text = format!("max_batch_size: 4 sequence_batching {{ {batching} }}");
    assert_eq!(read(&text).unwrap_err().problems, problems);
}

#[test]
fn only_what_clients_send_and_get_is_completed() {
    let text = format!(
        "max_batch_size: 4 sequence_batching {{ {START} {ID} {STATE} oldest {{ max_candidate_sequences: 2 }} }}"
    );
    let completed = read(&text).unwrap();
    let names = |ports: &[serving::config::model::PortConfig]| -> Vec<String> {
        ports.iter().map(|it| it.name.to_string()).collect()
    };
    assert_eq!(names(&completed.config.inputs), ["x"]);
    assert_eq!(names(&completed.config.outputs), ["y"]);
    let Scheduling::Sequences(batching) = &completed.config.scheduling else { panic!() };
    assert_eq!(batching.idle.as_micros(), 1_000_000);
    assert_eq!(batching.seats, 2);
    let Some(SchedulingChoice::SequenceBatching(raw)) = &completed.raw.scheduling_choice else {
        panic!()
    };
    let Some(StrategyChoice::Oldest(oldest)) = &raw.strategy_choice else { panic!() };
    assert_eq!(oldest.preferred_batch_size, [4]);
}

#[test]
fn a_direct_model_has_a_seat_for_each_row_and_one_without_rows() {
    let seats = |text: &str| match read(text).unwrap().config.scheduling {
        Scheduling::Sequences(batching) => batching.seats,
        other => panic!("{other:?}"),
    };
    assert_eq!(
        seats(&format!("max_batch_size: 3 sequence_batching {{ {START} {ID} {STATE} }}")),
        3
    );
}

#[test]
fn each_control_says_one_thing_in_one_way() {
    let wrong = [
        (
            "control_input { control { } }",
            "sequence_batching.control_input[0]: name is missing; expected an input of the model",
        ),
        (
            "control_input { name: 'start' }",
            "sequence_batching.control_input[0] 'start': expected one control, as an input can say one thing; given 0",
        ),
        (
            "control_input { name: 'start' control { int32_false_true: [ 1 ] fp32_false_true: [ 0, 1 ] } }",
            "sequence_batching.control_input[0] 'start': expected one of int32_false_true, fp32_false_true, \
             bool_false_true, with 2 entries; given int32_false_true with 1 entries, fp32_false_true with 2 entries",
        ),
        (
            "control_input { name: 'id' control { kind: CONTROL_SEQUENCE_CORRID data_type: TYPE_FP32 } }",
            "sequence_batching.control_input[0] 'id': data_type is TYPE_FP32; expected one of TYPE_UINT64, TYPE_INT64, \
             TYPE_UINT32, TYPE_INT32, TYPE_STRING",
        ),
        (
            "control_input { name: 'id' control { kind: CONTROL_SEQUENCE_CORRID data_type: TYPE_UINT64 int32_false_true: [ 0, 1 ] } }",
            "sequence_batching.control_input[0] 'id': int32_false_true is not for CONTROL_SEQUENCE_CORRID; write data_type",
        ),
    ];
    for (batching, problem) in wrong {
        let text = format!(
            "backend: 'identity' {FULL} max_batch_size: 4 sequence_batching {{ {batching} }}"
        );
        let errors = completed("m", &text, None, &Defaults::default()).unwrap_err();
        assert_eq!(errors.problems, [problem]);
    }
    let twice = START.replace("'start'", "'past'");
    refused(
        &format!("{START} {twice} {ID}"),
        &[
            "sequence_batching.control_input[1] 'past': kind CONTROL_SEQUENCE_START is given twice; expected it once at most",
        ],
    );
}

#[test]
fn controls_and_states_must_be_those_of_the_model_and_no_clients() {
    refused(
        &format!("{} {ID} {STATE}", START.replace("'start'", "'stort'")),
        &[
            "sequence_batching.control_input[0]: 'stort' is not an input of the model, whose inputs are 'x', 'start', \
             'id', 'past'; did you mean 'start'?",
        ],
    );
    refused(
        &format!(
            "{} {ID} {}",
            START.replace("int32", "fp32"),
            STATE.replace("dims: 1", "dims: [ 1, 1 ]")
        ),
        &[
            "sequence_batching.control_input[0]: 'start' would be TYPE_FP32, the model has TYPE_INT32",
            "sequence_batching.state[0]: 'past' would have the shape [ -1, 1, 1 ], the model has [ -1, 1 ]",
            "sequence_batching.state[0]: 'now' would have the shape [ -1, 1, 1 ], the model has [ -1, 1 ]",
        ],
    );
    let both = format!(
        "max_batch_size: 4 sequence_batching {{ {START} {ID} {STATE} }}
         input [ {{ name: 'x' data_type: TYPE_INT32 dims: 1 }}, {{ name: 'start' data_type: TYPE_INT32 dims: 1 }} ]"
    );
    assert_eq!(
        read(&both).unwrap_err().problems,
        [
            "sequence_batching.control_input[0]: 'start' is configured as an input, too, and clients would have to send \
          what the server makes; leave the input out"
        ]
    );
}

#[test]
fn an_initial_state_is_one_of_its_state() {
    let state = |initial: &str| STATE.replace("dims: 1", &format!("dims: 1 {initial}"));
    refused(
        &format!("{START} {ID} {}", state("initial_state { data_type: TYPE_FP32 dims: 2 }")),
        &[
            "sequence_batching.state[0]: initial_state: data_type is TYPE_FP32, that of the state is TYPE_INT32; they \
             must be equal",
            "sequence_batching.state[0]: initial_state: dims are [2]; expected the dims of the state, [ 1 ], with a \
             size of at least 1 for each -1",
            "sequence_batching.state[0]: initial_state: its data is missing; expected zero_data, or data_file with the \
             name of a file in the folder 'initial_state'",
        ],
    );
}

#[test]
fn seats_are_bounded_for_an_instance_and_for_all_of_them() {
    let oldest =
        |seats: u32| format!("{START} {ID} {STATE} oldest {{ max_candidate_sequences: {seats} }}");
    refused(
        &oldest(2_000_000_000),
        &[
            "sequence_batching.oldest.max_candidate_sequences is 2000000000; expected at most 1048576, as each instance has \
           a table with a place for each of so many sequences",
        ],
    );
}

#[test]
fn strategies_have_their_ranges() {
    let direct = format!("{START} {ID} {STATE} direct {{ minimum_slot_utilization: 1.5 }}");
    refused(
        &direct,
        &["sequence_batching.direct.minimum_slot_utilization is 1.5; expected 0 to 1"],
    );
    let oldest = format!("{START} {ID} {STATE} oldest {{ preferred_batch_size: [ 2, 5 ] }}");
    refused(
        &oldest,
        &[
            "sequence_batching.oldest.max_candidate_sequences is 0; expected at least 1",
            "sequence_batching.oldest.preferred_batch_size[1] is 5; expected 1 to max_batch_size, which is 4",
        ],
    );
    refused(
        &format!("{START} {ID} {STATE} iterative_sequence: true"),
        &[
            "sequence_batching.iterative_sequence is not supported: it is for backends that put a request back into the \
           queue, and the backend 'onnxruntime' does not",
        ],
    );
}

#[test]
fn answers_of_sequences_are_not_kept() {
    let text = format!(
        "max_batch_size: 4 response_cache {{ enable: true }} sequence_batching {{ {START} {ID} {STATE} }}"
    );
    let problem = "response_cache { enable: true } excludes sequence_batching: an answer depends on the requests before it";
    assert_eq!(read(&text).unwrap_err().problems, [problem]);
}
