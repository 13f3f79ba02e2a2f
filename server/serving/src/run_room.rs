//! The room that a request takes for its run before it is made: for what the engine holds beside the inputs, and for
//! outputs whose size is known.

use std::sync::Arc;

use backend::{DataType, RunMemory, StringMemory};

use crate::config::model::PortConfig;
use inference::{
    error::Error,
    limits::{Budget, Permit, out_of_bytes},
    room::UNCOUNTED,
};
use schedule::work::Work;

/// What runs of one model take.
#[derive(Debug, Clone, Default)]
pub struct RunRoom(Arc<RunMemory>);

impl RunRoom {
    /// Room of which this is known.
    pub fn new(memory: RunMemory) -> RunRoom {
        RunRoom(Arc::new(memory))
    }

    /// What requests of the same shapes differ in: which of the large outputs they want. 0 for none of them.
    pub fn key(&self, work: &Work) -> u64 {
        let wanted = |(name, _): &(Arc<str>, usize)| work.outputs.contains(name);
        // A forest has two.
        let bits = self.0.large_outputs.iter().take(64).enumerate();
        bits.fold(0, |key, (at, it)| key | u64::from(wanted(it)) << at)
    }

    /// Takes room for the run of a request to a model with these outputs, and has its inputs keep it: so it is taken
    /// until the run is over, also where the client leaves before. Whoever waits for the answer keeps it, too. `None`
    /// where the run takes little.
    ///
    /// # Errors
    /// [`Error::OutOfBudget`] where other requests hold it; [`Error::InvalidRequest`] where all of the budget would
    /// not do.
    pub fn take(
        &self,
        model: &str,
        outputs: &[PortConfig],
        work: &mut Work,
        budget: Option<&Arc<Budget>>,
    ) -> Result<Option<Arc<Permit>>, Error> {
        let bytes = self.needs(outputs, work).map(|it| it.bytes).fold(0, usize::saturating_add);
        let Some(budget) = budget.filter(|_| UNCOUNTED < bytes) else { return Ok(None) };
        // The request holds its inputs beside it.
        let own: usize = work.inputs.iter().map(|it| it.tensor.byte_len()).sum();
        if budget.limit() < bytes.saturating_add(own) {
            let names: Vec<String> = self.needs(outputs, work).map(|it| it.of.text()).collect();
            return Err(Error::InvalidRequest(format!(
                "model '{model}': {} of {} rows would take {bytes} bytes, more than all requests may take together \
                 (--max-inflight-bytes); send fewer rows at once",
                names.join(" and "),
                work.rows
            )));
        }
        let permit = Arc::new(budget.take(bytes).ok_or_else(|| out_of_bytes(budget))?);
        if let Some(input) = work.inputs.first_mut() {
            input.tensor = input.tensor.clone().keeping(permit.clone());
        }
        Ok(Some(permit))
    }

    /// What a run takes beside its inputs, but for nothing.
    fn needs<'a>(
        &'a self,
        ports: &'a [PortConfig],
        work: &'a Work,
    ) -> impl Iterator<Item = Need<'a>> {
        let rows = work.rows.max(1);
        let (strings, text) = strings(work);
        let copied = |it: StringMemory| it.of_input(strings, text);
        let copied = self.0.strings.map_or(0, copied);
        // Outputs no larger than the inputs are what a budget of bodies is made for.
        let mut usual: usize = work.inputs.iter().map(|it| it.tensor.byte_len()).sum();
        let mut beyond = move |bytes: usize| {
            let covered = usual.min(bytes);
            usual -= covered;
            bytes - covered
        };
        let output = move |name: &'a Arc<str>| {
            let large = self.0.large_outputs.iter().find(|it| it.0 == *name);
            let bytes = match (large, ports.iter().find(|it| it.name == *name)) {
                (Some((_, of_row)), _) => of_row.saturating_mul(rows),
                (None, Some(port)) => {
                    let elements = elements(port).map(|it| it.saturating_mul(rows));
                    match (port.dtype.size(), self.0.strings) {
                        (Some(size), _) => beyond(elements.unwrap_or(0).saturating_mul(size)),
                        // Where it is not known how many there are: as many as there were.
                        (None, Some(it)) => it.of_output(elements.unwrap_or(strings), text),
                        (None, None) => 0,
                    }
                }
                (None, None) => 0,
            };
            Need { of: Of::Output(name), bytes }
        };
        let inputs = std::iter::once(Need { of: Of::Strings, bytes: copied });
        inputs.chain(work.outputs.iter().map(output)).filter(|it| 0 < it.bytes)
    }
}

/// A part of what a run takes.
struct Need<'a> {
    of: Of<'a>,
    bytes: usize,
}

enum Of<'a> {
    Strings,
    Output(&'a str),
}

impl Of<'_> {
    fn text(&self) -> String {
        match self {
            Of::Strings => "the engine's copy of the texts".to_owned(),
            Of::Output(name) => format!("'{name}'"),
        }
    }
}

/// How many strings the inputs have, and the bytes of their text.
fn strings(work: &Work) -> (usize, usize) {
    let texts = work.inputs.iter().map(|it| &it.tensor).filter(|it| it.dtype() == DataType::Bytes);
    texts.fold((0, 0), |(strings, text), it| {
        let elements = it.elements();
        (strings + elements, text + it.byte_len().saturating_sub(4 * elements))
    })
}

/// Elements of a row; `None` where a dimension is open.
fn elements(port: &PortConfig) -> Option<usize> {
    let dims = port.engine_dims();
    let known = |elements: usize, it: &Option<usize>| it.map(|it| elements.saturating_mul(it));
    if port.any_rank { None } else { dims.iter().try_fold(1, known) }
}

#[cfg(test)]
mod tests {
    use backend::{NamedTensor, Shape, Tensor};

    use super::*;

    fn work(rows: usize, outputs: &[&str], inputs: Vec<Tensor>) -> Work {
        let outputs = outputs.iter().map(|it| Arc::from(*it)).collect();
        let named = |tensor| NamedTensor { name: "x".into(), tensor };
        Work {
            inputs: inputs.into_iter().map(named).collect(),
            outputs,
            rows,
            signature: 0,
            about: None,
            parts: None,
        }
    }

    fn forest() -> RunRoom {
        let large_outputs = vec![("leaf".into(), 4000), ("shap".into(), 400)];
        RunRoom::new(RunMemory { large_outputs, ..RunMemory::default() })
    }

    fn port(name: &str, dtype: DataType, dims: &[Option<usize>]) -> PortConfig {
        PortConfig {
            name: name.into(),
            dtype,
            dims: dims.into(),
            any_rank: false,
            reshape: None,
            optional: false,
            label_filename: None,
            ragged: false,
        }
    }

    fn empty_strings(count: usize) -> Tensor {
        Tensor::zeros(DataType::Bytes, Shape::new(&[count])).unwrap()
    }

    #[test]
    fn room_is_taken_for_what_is_wanted_and_given_back() {
        let budget = Budget::new(1 << 20);
        let take = |rows, names: &[&str]| {
            forest().take("m", &[], &mut work(rows, names, Vec::new()), Some(&budget))
        };
        assert!(take(100, &["y"]).unwrap().is_none());
        assert!(take(10, &["leaf"]).unwrap().is_none(), "it is little");
        let held = take(100, &["y", "leaf", "shap"]).unwrap();
        assert_eq!((held.as_ref().map(|it| it.units()), budget.used()), (Some(440_000), 440_000));
        assert!(matches!(take(200, &["leaf"]), Err(Error::OutOfBudget(_))));
        drop(held);
        assert!(take(200, &["leaf"]).is_ok());
        let refused = take(300, &["leaf", "shap"]).unwrap_err().to_string();
        assert!(
            refused.contains("'leaf' and 'shap' of 300 rows would take 1320000 bytes"),
            "{refused}"
        );
    }

    #[test]
    fn requests_that_want_other_outputs_have_other_keys() {
        let key = |names: &[&str]| forest().key(&work(1, names, Vec::new()));
        assert_eq!((key(&["y"]), key(&["y", "leaf"]), key(&["leaf"])), (0, 1, 1));
        assert_eq!(key(&["shap", "leaf"]), 3);
    }

    #[test]
    fn strings_take_room_for_the_places_that_the_engine_has_for_them() {
        let budget = Budget::new(100 << 20);
        let room =
            RunRoom::new(RunMemory { strings: Some(StringMemory::STD), ..RunMemory::default() });
        let ports = [port("y", DataType::Bytes, &[None])];
        let take = |count| {
            let mut work = work(1, &["y"], vec![empty_strings(count)]);
            room.take("m", &ports, &mut work, Some(&budget)).map(|it| (work, it))
        };
        assert!(take(800).unwrap().1.is_none(), "few strings take little");
        let (_work, held) = take(1 << 20).unwrap();
        assert_eq!(held.map(|it| it.units()), Some(76 << 20));
        let refused = take(2 << 20).map(|_| ()).unwrap_err().to_string();
        assert!(refused.contains("the engine's copy of the texts and 'y' of 1 rows"), "{refused}");
    }

    #[test]
    fn room_for_outputs_that_are_declared_stays_as_long_as_the_inputs_of_the_run() {
        let budget = Budget::new(1 << 20);
        let ports = [port("y", DataType::Fp32, &[Some(1000)]), port("z", DataType::Fp32, &[None])];
        let x = Tensor::zeros(DataType::Fp32, Shape::new(&[100, 1])).unwrap();
        let mut work = work(100, &["y", "z"], vec![x]);
        let held = RunRoom::default().take("m", &ports, &mut work, Some(&budget)).unwrap();
        // But for as many bytes as the inputs have.
        assert_eq!(held.map(|it| it.units()), Some(399_600));
        assert_eq!(budget.used(), 399_600, "its run is not over");
        drop(work);
        assert_eq!(budget.used(), 0);
    }
}
