//! Triton's suite `L0_sequence_batcher` with states that the server keeps, and with tensors in shared memory: the
//! suite's five layouts of instances and rows, and its sequences with their sums.

use serde_json::{Value, json};

use crate::support::{
    Client, Page, Repository, Server, ask, infer, shared_memory::Object, wait_queued,
};

/// Instances and rows. Without rows there is no batch dimension.
const LAYOUTS: [(usize, usize); 4] = [(4, 0), (1, 4), (2, 2), (4, 1)];

/// Where the tensors of a request are.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Place {
    Body,
    Memory,
}

/// Room for the output of one request.
const ROOM: usize = 64;

/// One server, and the memory that its clients share with it.
struct Suite {
    server: Server,
    place: Place,
    has_rows: bool,
    inputs: Object,
    outputs: Object,
    _repository: Repository,
}

/// A request of a sequence. OUTPUT adds up to what the sequence has sent.
#[derive(Debug, Clone, Copy)]
struct Step {
    id: u64,
    start: bool,
    end: bool,
    value: i32,
}

/// The steps of a whole sequence.
fn whole(id: u64, values: &[i32]) -> Vec<Step> {
    let last = values.len() - 1;
    let step = |(at, &value): (usize, &i32)| Step { id, start: at == 0, end: at == last, value };
    values.iter().enumerate().map(step).collect()
}

/// The requests of several sequences, one of each in turn.
fn in_turn(sequences: &[Vec<Step>]) -> Vec<Step> {
    let longest = sequences.iter().map(Vec::len).max().unwrap_or(0);
    (0..longest).flat_map(|at| sequences.iter().filter_map(move |it| it.get(at).copied())).collect()
}

impl Suite {
    /// The model has its rows in one tensor where there are rows, and else one sequence on each instance.
    fn start((instances, rows): (usize, usize), place: Place, hold: usize) -> Suite {
        let (folder, first) = match rows {
            0 => ("history_alone", "PAST"),
            _ => ("accumulate", "SUM_IN"),
        };
        let last = if rows == 0 { "NOW" } else { "SUM_OUT" };
        let control = |name: &str, kind: &str, values: &str| {
            format!(
                "control_input {{ name: \"{name}\" control {{ kind: CONTROL_SEQUENCE_{kind} {values} }} }}"
            )
        };
        let controls = [
            control("START", "START", "int32_false_true: [ 0, 1 ]"),
            control("READY", "READY", "fp32_false_true: [ 0, 1 ]"),
            control("END", "END", "bool_false_true: [ false, true ]"),
            control("CORRID", "CORRID", "data_type: TYPE_UINT64"),
        ]
        .concat();
        let controls = if rows == 0 { "" } else { &controls };
        let config = format!(
            "max_batch_size: {rows} instance_group {{ count: {instances} kind: KIND_CPU }}
             sequence_batching {{ max_sequence_idle_microseconds: 60000000 {controls}
               state {{ input_name: \"{first}\" output_name: \"{last}\" data_type: TYPE_INT32 dims: [ -1 ]
                 initial_state {{ name: \"zero\" data_type: TYPE_INT32 dims: [ 1 ] zero_data: true }} }} }}"
        );
        let repository = Repository::new()
            .copy("m", &format!("tests/fixtures/batching/{folder}"))
            .file("m/config.pbtxt", config);
        let hold = format!("--scheduler-hold={hold}");
        let server = Server::start(&repository, &["--allow-client-shm=true", &hold]);
        let (inputs, outputs) = (Object::new(&[0; 64 * 4]), Object::new(&[0; 64 * ROOM]));
        inputs.register(&server, "in");
        outputs.register(&server, "out");
        Suite { server, place, has_rows: rows != 0, inputs, outputs, _repository: repository }
    }

    /// The body of the request with this number.
    fn body(&self, number: usize, step: Step) -> String {
        let shape = if self.has_rows { json!([1, 1]) } else { json!([1]) };
        let mut input = json!({"name": "INPUT", "shape": shape, "datatype": "INT32"});
        let mut output = json!({"name": "OUTPUT"});
        match self.place {
            Place::Body => input["data"] = json!([step.value]),
            Place::Memory => {
                self.inputs.write(number * 4, &step.value.to_le_bytes());
                input["parameters"] = part("in", number * 4, 4);
                output["parameters"] = part("out", number * ROOM, ROOM);
            }
        }
        let Step { id, start, end, .. } = step;
        let sequence = json!({"sequence_id": id, "sequence_start": start, "sequence_end": end});
        json!({"parameters": sequence, "inputs": [input], "outputs": [output]}).to_string()
    }

    /// What the request with this number has been answered.
    #[track_caller]
    fn sum(&self, number: usize, reply: &Value) -> i32 {
        let output = &reply["outputs"][0];
        if self.place == Place::Body {
            let data = output["data"].as_array().unwrap_or_else(|| panic!("{reply}"));
            return data.iter().map(|it| it.as_i64().unwrap() as i32).sum();
        }
        assert_eq!(output["data"], Value::Null, "{reply}");
        let shape = output["shape"].as_array().unwrap_or_else(|| panic!("{reply}"));
        let elements: u64 = shape.iter().map(|it| it.as_u64().unwrap()).product();
        let content = self.outputs.content();
        let bytes = &content[number * ROOM..][..elements as usize * 4];
        bytes.chunks_exact(4).map(|it| i32::from_le_bytes(it.try_into().unwrap())).sum()
    }

    /// Sends these requests in this order without waiting for answers; the sum that each is answered.
    #[track_caller]
    fn sums(&self, steps: &[Step]) -> Vec<i32> {
        let mut clients: Vec<Client> = Vec::new();
        for (number, step) in steps.iter().enumerate() {
            wait_queued(self.server.http(), "m", number);
            clients.push(ask(self.server.http(), "m", self.body(number, *step)));
        }
        let replies = clients.iter_mut().map(|it| it.reply().expect(200).json());
        replies.enumerate().map(|(number, reply)| self.sum(number, &reply)).collect()
    }

    #[track_caller]
    fn refused(&self, step: Step, part: &str) {
        let text = self.server.post(&infer("m"), self.body(0, step)).error(400);
        assert!(text.contains(part), "{text}");
    }

    fn runs(&self) -> f64 {
        Page::read(self.server.http()).of("m", "nv_inference_exec_count")
    }
}

fn part(region: &str, offset: usize, size: usize) -> Value {
    json!({"shared_memory_region": region, "shared_memory_offset": offset, "shared_memory_byte_size": size})
}

/// Every layout, with tensors in bodies and in memory.
fn everywhere(check: impl Fn((usize, usize), Place)) {
    for layout in LAYOUTS {
        for place in [Place::Body, Place::Memory] {
            println!("{layout:?} {place:?}");
            check(layout, place);
        }
    }
}

/// Sequences of the suite that are all sent before anything runs. Each answer is the sum so far; the last one of each
/// sequence is what the suite's would be; the model takes no numbers above 999.
#[track_caller]
fn check_all(sequences: &[(u64, &[i32], i32)]) {
    let whole: Vec<Vec<Step>> =
        sequences.iter().map(|(id, values, _)| whole(*id, values)).collect();
    check_steps(&in_turn(&whole), sequences);
}

#[track_caller]
fn check_steps(steps: &[Step], sequences: &[(u64, &[i32], i32)]) {
    everywhere(|layout, place| {
        let suite = Suite::start(layout, place, steps.len());
        let sums = suite.sums(steps);
        for (id, _, expected) in sequences {
            let ends = steps.iter().zip(&sums).filter(|(step, _)| step.id == *id && step.end);
            assert!(ends.clone().any(|(_, sum)| sum == expected), "{id}: {sums:?}");
        }
        let longest = sequences.iter().map(|it| it.1.len()).max().unwrap();
        if layout == (1, 4) && sequences.len() <= 4 {
            assert_eq!(suite.runs(), longest as f64);
        }
    });
}

#[test]
fn simple_sequence_length1_sequence_no_sequence_end() {
    everywhere(|layout, place| {
        let suite = Suite::start(layout, place, 0);
        let mut number = 0;
        let mut send = |step: Step| {
            number += 1;
            let reply = suite.server.post(&infer("m"), suite.body(number, step)).expect(200);
            suite.sum(number, &reply.json())
        };
        let last = |sums: Vec<i32>| *sums.last().unwrap();
        let simple = whole(5, &[1, 2, 3, 4, 5, 6, 7, 8, 9]);
        assert_eq!(last(simple.into_iter().map(&mut send).collect()), 45);
        assert_eq!(last(whole(99, &[42]).into_iter().map(&mut send).collect()), 42);
        // A start takes the place of an end that has not come.
        let mut open = whole(8, &[1, 2, 3]);
        open[2].end = false;
        assert_eq!(last(open.into_iter().map(&mut send).collect()), 6);
        assert_eq!(last(whole(8, &[42, 9]).into_iter().map(&mut send).collect()), 51);
    });
}

#[test]
fn no_sequence_start_no_correlation_id() {
    everywhere(|layout, place| {
        let suite = Suite::start(layout, place, 0);
        let later = Step { id: 9, start: false, end: false, value: 1 };
        let start = "for sequence 9 to model 'm' must specify the START flag on the first request";
        suite.refused(later, start);
        // The same after a sequence of this id has ended.
        for step in whole(9, &[1, 2, 3]) {
            suite.server.post(&infer("m"), suite.body(0, step)).expect(200);
        }
        suite.refused(Step { end: true, ..later }, start);
        suite.refused(Step { id: 0, start: true, ..later }, "non-zero or non-empty correlation ID");
    });
}

#[test]
fn half_batch() {
    check_all(&[(1001, &[1, 2, 3, 4], 10), (1002, &[0, 9, 5, 13], 27)]);
}

#[test]
fn skip_batch() {
    let sequences: [(u64, &[i32], i32); 4] = [
        (1001, &[1, 3], 4),
        (1002, &[11, 12, 13, 14], 50),
        (1003, &[111, 113], 224),
        (1004, &[711, 712, 713, 714], 2850),
    ];
    check_all(&sequences);
}

const FULL: [(u64, &[i32], i32); 4] = [
    (1001, &[1, 2, 3], 6),
    (1002, &[11, 12, 13], 36),
    (1003, &[111, 112, 113], 336),
    (1004, &[711, 712, 713], 2136),
];

#[test]
fn full_batch() {
    check_all(&FULL);
}

#[test]
fn backlog() {
    check_all(&[&FULL[..], &[(1005, &[811, 812, 813], 2436)]].concat());
}

const SHORT: [(u64, &[i32], i32); 4] = [
    (1001, &[1, 2, 3], 6),
    (1002, &[11, 13], 24),
    (1003, &[111, 113], 224),
    (1004, &[711, 712, 713], 2136),
];

#[test]
fn backlog_fill() {
    check_all(&[&SHORT[..], &[(1005, &[811], 811), (1006, &[911], 911)]].concat());
}

#[test]
fn backlog_fill_no_end() {
    let sequences = [&SHORT[..], &[(1005, &[811], 811), (1006, &[911, 912, 913], 2736)]].concat();
    check_all(&sequences);
}

/// A sequence begins again in the backlog under the id that it had.
#[test]
fn backlog_same_correlation_id() {
    let four: Vec<Vec<Step>> = FULL.iter().map(|(id, values, _)| whole(*id, values)).collect();
    let again = [whole(1002, &[811]), whole(1002, &[911, 912])].concat();
    let steps = [in_turn(&four), again].concat();
    let sums = [&FULL[..], &[(1002, &[811], 811), (1002, &[911, 912], 1823)]].concat();
    check_steps(&steps, &sums);
}
