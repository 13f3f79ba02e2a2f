//! Sequence batching: controls, states, strategy.

use std::{sync::Arc, time::Duration};

use backend::DataType;

use crate::config::check::{
    report::{Report, file_name},
    types::{data_type, dims_text, type_name, type_of_number},
};
use schedule::{
    policy::BatchPolicy,
    sequence::{Control, DirectPolicy, Flag, IdType, Signal, Strategy},
};
use serving::config::{
    raw::{
        ModelConfig as RawConfig, ModelSequenceBatching,
        model_sequence_batching::{
            Control as RawControl, State as RawState, StrategyChoice, StrategyOldest,
            control::Kind, initial_state::StateData,
        },
    },
    sequence_batching::{SequenceBatching, StateConfig},
    server_ports::{ServerPort, ServerPorts, sequence_batching},
};

/// Seats for sequences of one instance: each is a place in a table that is made with the model.
const MOST_SEATS: usize = 1 << 20;

/// Seats of all instances of a model.
const MOST_SEATS_OF_ALL: usize = 1 << 22;

/// Reads `sequence_batching`. The inputs that the server makes and the outputs that it keeps are added to `made`.
pub(super) fn sequences(
    raw: &RawConfig,
    max_batch_size: usize,
    made: &mut ServerPorts,
    report: &mut Report,
) -> Option<SequenceBatching> {
    let given = sequence_batching(raw)?;
    let batch = (max_batch_size > 0).then_some(None);
    let controls = controls(given, report);
    for (i, control) in &controls {
        let dims = batch.into_iter().chain([Some(1)]).collect();
        made.inputs.push(ServerPort {
            place: format!("sequence_batching.control_input[{i}]"),
            name: control.name.clone(),
            dtype: control.dtype(),
            dims,
        });
    }
    let mut states = Vec::with_capacity(given.state.len());
    for (i, it) in given.state.iter().enumerate() {
        let place = format!("sequence_batching.state[{i}]");
        let Some((state, dims)) = state(&place, it, report) else { continue };
        let dims: Vec<Option<usize>> = batch.into_iter().chain(dims).collect();
        let port = |name: &Arc<str>| ServerPort {
            place: place.clone(),
            name: name.clone(),
            dtype: state.dtype,
            dims: dims.clone(),
        };
        made.inputs.push(port(&state.input));
        made.outputs.push(port(&state.output));
        states.push(state);
    }
    let (strategy, seats) = strategy(given, max_batch_size, report);
    let seats = bounded(given, seats, raw, report);
    Some(SequenceBatching {
        idle: Duration::from_micros(given.max_sequence_idle_microseconds),
        strategy,
        seats,
        controls: controls.into_iter().map(|(_, it)| it).collect(),
        iterates: given.iterative_sequence,
        states,
    })
}

/// The controls that are valid in themselves, with their indices.
fn controls(given: &ModelSequenceBatching, report: &mut Report) -> Vec<(usize, Control)> {
    let mut controls: Vec<(usize, Control)> = Vec::with_capacity(given.control_input.len());
    let mut seen: Vec<Kind> = Vec::new();
    for (i, input) in given.control_input.iter().enumerate() {
        let place = format!("sequence_batching.control_input[{i}]");
        if input.name.is_empty() {
            report.problem(format!("{place}: name is missing; expected an input of the model"));
            continue;
        }
        let place = format!("{place} '{}'", input.name);
        let [control] = input.control.as_slice() else {
            report.problem(format!(
                "{place}: expected one control, as an input can say one thing; given {}",
                input.control.len()
            ));
            continue;
        };
        let Ok(kind) = Kind::try_from(control.kind) else {
            report.problem(format!(
                "{place}: kind {} is not known; expected CONTROL_SEQUENCE_START, CONTROL_SEQUENCE_READY, \
                 CONTROL_SEQUENCE_END or CONTROL_SEQUENCE_CORRID",
                control.kind
            ));
            continue;
        };
        if seen.contains(&kind) {
            let kind = kind.as_str_name();
            report
                .problem(format!("{place}: kind {kind} is given twice; expected it once at most"));
            continue;
        }
        seen.push(kind);
        let signal = match kind {
            Kind::ControlSequenceCorrid => id_type(&place, control, report).map(Signal::Id),
            Kind::ControlSequenceStart => flag(&place, control, report).map(Signal::Start),
            Kind::ControlSequenceReady => flag(&place, control, report).map(Signal::Ready),
            Kind::ControlSequenceEnd => flag(&place, control, report).map(Signal::End),
        };
        let name = input.name.as_str().into();
        controls.extend(signal.map(|signal| (i, Control { name, signal })));
    }
    controls
}

/// The lists of false and true that are given, by name, and their lengths.
fn lists(control: &RawControl) -> Vec<(&'static str, usize)> {
    let lists = [
        ("int32_false_true", control.int32_false_true.len()),
        ("fp32_false_true", control.fp32_false_true.len()),
        ("bool_false_true", control.bool_false_true.len()),
    ];
    lists.into_iter().filter(|it| 0 < it.1).collect()
}

fn flag(place: &str, control: &RawControl, report: &mut Report) -> Option<Flag> {
    let lists = lists(control);
    if control.data_type != 0 {
        report.problem(format!(
            "{place}: data_type is for CONTROL_SEQUENCE_CORRID only; the list of false and true says the type"
        ));
    }
    let flag = match (
        control.int32_false_true.as_slice(),
        control.fp32_false_true.as_slice(),
        control.bool_false_true.as_slice(),
    ) {
        (&[no, yes], [], []) => Some(Flag::Int32([no, yes])),
        ([], &[no, yes], []) => Some(Flag::Fp32([no, yes])),
        ([], [], &[no, yes]) => Some(Flag::Bool([no, yes])),
        _ => None,
    };
    if flag.is_none() {
        let given: Vec<String> =
            lists.iter().map(|(name, length)| format!("{name} with {length} entries")).collect();
        let given = if given.is_empty() { "none".to_owned() } else { given.join(", ") };
        report.problem(format!(
            "{place}: expected one of int32_false_true, fp32_false_true, bool_false_true, with 2 entries; given {given}"
        ));
    }
    flag
}

fn id_type(place: &str, control: &RawControl, report: &mut Report) -> Option<IdType> {
    for (list, _) in lists(control) {
        report.problem(format!(
            "{place}: {list} is not for CONTROL_SEQUENCE_CORRID; write data_type"
        ));
    }
    let known =
        IdType::ALL.into_iter().find(|it| Some(it.dtype()) == type_of_number(control.data_type));
    if known.is_none() {
        let given = type_of_number(control.data_type).map_or("none", type_name);
        let all = IdType::ALL.map(|it| type_name(it.dtype())).join(", ");
        report.problem(format!("{place}: data_type is {given}; expected one of {all}"));
    }
    known
}

/// A state, and the dimensions that it may have.
fn state(
    place: &str,
    given: &RawState,
    report: &mut Report,
) -> Option<(StateConfig, Vec<Option<usize>>)> {
    let before = report.problems.len();
    for (field, name) in [("input_name", &given.input_name), ("output_name", &given.output_name)] {
        if name.is_empty() {
            report.problem(format!("{place}: {field} is missing"));
        }
    }
    let dtype = data_type(place, given.data_type, report);
    let dims = dims(place, &given.dims, report);
    if given.initial_state.len() > 1 {
        report.problem(format!(
            "{place}: expected one initial_state at most, given {}",
            given.initial_state.len()
        ));
    }
    // Without one it is zeros, of size 1 where any size is taken.
    let mut initial_dims: Vec<usize> = dims.iter().flatten().map(|it| it.unwrap_or(1)).collect();
    let mut initial_file = None;
    if let (Some(initial), Some(dims)) = (given.initial_state.first(), &dims) {
        let place = format!("{place}: initial_state");
        if initial.data_type != given.data_type {
            let name = |number| type_of_number(number).map_or("none", type_name);
            report.problem(format!(
                "{place}: data_type is {}, that of the state is {}; they must be equal",
                name(initial.data_type),
                name(given.data_type)
            ));
        }
        let sizes: Option<Vec<usize>> =
            initial.dims.iter().map(|&it| usize::try_from(it).ok().filter(|&it| it >= 1)).collect();
        let fits = |sizes: &Vec<usize>| {
            let mut pairs = dims.iter().zip(sizes);
            sizes.len() == dims.len() && pairs.all(|(dim, size)| dim.is_none_or(|it| it == *size))
        };
        match sizes.filter(fits) {
            Some(sizes) => initial_dims = sizes,
            None => report.problem(format!(
                "{place}: dims are {:?}; expected the dims of the state, {}, with a size of at least 1 for each -1",
                initial.dims,
                dims_text(dims)
            )),
        }
        match &initial.state_data {
            Some(StateData::ZeroData(_)) => {}
            Some(StateData::DataFile(file)) if !file.is_empty() => {
                file_name(&format!("{place}.data_file"), file, report);
                initial_file = Some(file.clone());
            }
            Some(StateData::DataFile(_)) | None => report.problem(format!(
                "{place}: its data is missing; expected zero_data, or data_file with the name of a file in the folder \
                 'initial_state'"
            )),
        }
    }
    // How memory is laid out is the engine's business, and every state may grow.
    let ignored = [
        ("use_same_buffer_for_input_output", given.use_same_buffer_for_input_output),
        ("use_growable_memory", given.use_growable_memory),
    ];
    for (field, _) in ignored.iter().filter(|(_, given)| *given) {
        report.warn(format!("{place}: {field} is ignored"));
    }
    (report.problems.len() == before).then_some(())?;
    let (input, output) = (given.input_name.as_str().into(), given.output_name.as_str().into());
    Some((StateConfig { input, output, dtype: dtype?, initial_dims, initial_file }, dims?))
}

fn dims(place: &str, given: &[i64], report: &mut Report) -> Option<Vec<Option<usize>>> {
    let size = |&it: &i64| match usize::try_from(it) {
        Ok(size) if size >= 1 => Some(Some(size)),
        Err(_) if it == -1 => Some(None),
        _ => None,
    };
    let dims = given.iter().map(size).collect::<Option<Vec<_>>>().filter(|it| !it.is_empty());
    if dims.is_none() {
        report.problem(format!(
            "{place}: dims are {given:?}; expected at least one size, each at least 1, or -1 for any"
        ));
    }
    dims
}

/// The strategy, and how many sequences an instance has at most.
fn strategy(
    given: &ModelSequenceBatching,
    max_batch_size: usize,
    report: &mut Report,
) -> (Strategy, usize) {
    let oldest = match &given.strategy_choice {
        Some(StrategyChoice::Oldest(oldest)) => oldest,
        direct => {
            let (delay, utilization) = match direct {
                Some(StrategyChoice::Direct(it)) => {
                    (it.max_queue_delay_microseconds, it.minimum_slot_utilization)
                }
                _ => (0, 0.0),
            };
            if !(0.0..=1.0).contains(&utilization) {
                report.problem(format!(
                    "sequence_batching.direct.minimum_slot_utilization is {utilization}; expected 0 to 1"
                ));
            }
            let max_delay = Duration::from_micros(delay);
            let policy = DirectPolicy { max_delay, min_utilization: utilization };
            return (Strategy::Direct(policy), max_batch_size.max(1));
        }
    };
    let seats = usize::try_from(oldest.max_candidate_sequences).unwrap_or(0);
    if seats == 0 {
        report.problem(format!(
            "sequence_batching.oldest.max_candidate_sequences is {}; expected at least 1",
            oldest.max_candidate_sequences
        ));
    }
    let preferred_rows = preferred(oldest, max_batch_size, report);
    let batching = BatchPolicy {
        max_rows: max_batch_size,
        preferred_rows,
        max_delay: Duration::from_micros(oldest.max_queue_delay_microseconds),
    };
    (Strategy::Oldest { batching, preserve_ordering: oldest.preserve_ordering }, seats.max(1))
}

/// The seats, if there may be so many.
fn bounded(
    given: &ModelSequenceBatching,
    seats: usize,
    raw: &RawConfig,
    report: &mut Report,
) -> usize {
    let counts = raw.instance_group.iter().map(|it| usize::try_from(it.count).unwrap_or(0));
    let instances = counts.fold(0, usize::saturating_add).max(1);
    let most = MOST_SEATS.min(MOST_SEATS_OF_ALL / instances.min(MOST_SEATS_OF_ALL)).max(1);
    if seats <= most {
        return seats;
    }
    let field = match &given.strategy_choice {
        Some(StrategyChoice::Oldest(_)) => "sequence_batching.oldest.max_candidate_sequences",
        _ => "max_batch_size, which is the number of seats of sequence_batching.direct,",
    };
    report.problem(format!(
        "{field} is {seats}; expected at most {most}, as each instance has a table with a place for each of so many \
         sequences"
    ));
    1
}

fn preferred(oldest: &StrategyOldest, max_batch_size: usize, report: &mut Report) -> Vec<usize> {
    let mut sizes = Vec::with_capacity(oldest.preferred_batch_size.len());
    for (i, &size) in oldest.preferred_batch_size.iter().enumerate() {
        match usize::try_from(size) {
            Ok(size) if (1..=max_batch_size).contains(&size) => sizes.push(size),
            _ => report.problem(format!(
                "sequence_batching.oldest.preferred_batch_size[{i}] is {size}; expected 1 to max_batch_size, which is \
                 {max_batch_size}"
            )),
        }
    }
    sizes.sort_unstable();
    sizes.dedup();
    if sizes.is_empty() {
        sizes.push(max_batch_size);
    }
    sizes
}

/// Notes what the server makes and clients could send, or what it makes twice.
pub(super) fn check_made(raw: &RawConfig, made: &ServerPorts, report: &mut Report) {
    let sides = [("input", &made.inputs), ("output", &made.outputs)];
    for (what, ports) in sides {
        for (i, port) in ports.iter().enumerate() {
            if let Some(first) = ports.iter().take(i).find(|it| it.name == port.name) {
                report.problem(format!(
                    "{}: the {what} '{}' is named by {}, too; expected it once",
                    port.place, port.name, first.place
                ));
            }
        }
    }
    for port in &made.inputs {
        if raw.input.iter().any(|it| it.name == *port.name) {
            report.problem(format!(
                "{}: '{}' is configured as an input, too, and clients would have to send what the server makes; leave \
                 the input out",
                port.place, port.name
            ));
        }
    }
    for port in &made.outputs {
        // It may be returned as well, as what it is.
        let same = raw.output.iter().find(|it| it.name == *port.name);
        let dtype = same.and_then(|it| type_of_number(it.data_type));
        if let Some(dtype) = dtype.filter(|it: &DataType| *it != port.dtype) {
            report.problem(format!(
                "{}: data_type is {}, the output '{}' is configured as {}",
                port.place,
                type_name(port.dtype),
                port.name,
                type_name(dtype)
            ));
        }
    }
}
