//! Tensors that are made up, as the command line says: of the inputs that a model's metadata name, or of given ones.

use clap::ValueEnum;

use crate::{
    Error, Fill, Input, inputs_from_metadata,
    kserve::open_inputs,
    option_values::{InputArg, ValueArg, input, named_value, shape},
};

/// Requests of made-up tensors that are sent in turn, so that a server that keeps answers has not made one of them all:
/// so many, and so many bytes, at most.
const MOST: u64 = 16;
const MOST_BYTES: usize = 64 << 20;

/// The arguments that say what made-up tensors are like.
#[derive(Debug, Clone, Default, clap::Args)]
pub struct MadeUp {
    /// An input, such as x:FP32:1,30 (a scalar: x:FP32:); repeatable. Without any, the server's metadata
    /// are asked
    #[arg(long, value_name = "NAME:DATATYPE:DIMS", value_parser = input)]
    input: Vec<InputArg>,
    /// The shape of an input from the metadata, such as x:8,30; repeatable. Open dimensions are 1
    #[arg(long, value_name = "NAME:DIMS", value_parser = shape, conflicts_with = "input")]
    shape: Vec<(String, Vec<usize>)>,
    /// What made-up inputs hold
    #[arg(long, value_enum, default_value_t = DataArg::Random)]
    data: DataArg,
    /// What an input holds, such as threshold=0.5, text=hello or input_ids=0..30521; repeatable
    #[arg(long, value_name = "NAME=VALUE|LOW..HIGH", value_parser = named_value)]
    value: Vec<(String, ValueArg)>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
enum DataArg {
    /// Floats in [0, 1), integers in 0..100, strings of eight letters; a mask is ones, ids of token types are zeros,
    /// strings called image are pictures (PNG, 224 x 224), those called audio sounds (WAV, a second)
    #[default]
    Random,
    /// Zeros and empty strings
    Zeros,
}

/// The shape that an input is to have instead of that of the metadata; what it holds; and inputs of both.
pub(crate) type Shape<'a> = dyn Fn(&str) -> Option<Vec<usize>> + 'a;
pub(crate) type Filling<'a> = dyn Fn(&str) -> Fill + 'a;
type Read<'a> = dyn Fn(&Shape<'_>, &Filling<'_>) -> Result<Vec<Input>, Error> + 'a;

impl MadeUp {
    /// Are the inputs given, so that no metadata are needed?
    pub fn says_inputs(&self) -> bool {
        !self.input.is_empty()
    }

    /// The first option that says anything, if one does.
    pub fn said(&self) -> Option<&'static str> {
        let options = [
            ("--input", !self.input.is_empty()),
            ("--shape", !self.shape.is_empty()),
            ("--value", !self.value.is_empty()),
            ("--data", self.data != DataArg::default()),
        ];
        options.into_iter().find(|it| it.1).map(|it| it.0)
    }

    /// The inputs of these metadata whose open dimensions nothing is said of.
    pub fn open(&self, metadata: &[u8]) -> Vec<String> {
        let is_said = |name: &String| self.shape.iter().any(|it| it.0 == *name);
        match self.says_inputs() {
            true => Vec::new(),
            false => open_inputs(metadata).into_iter().filter(|it| !is_said(it)).collect(),
        }
    }

    /// What `make` makes of the inputs, each time of other numbers; its size in bytes is the second of what it gives.
    /// `metadata` is the body of `GET /v2/models/<model>`, which is not looked at where inputs are given. One of them
    /// is all there is where nothing is random.
    ///
    /// # Errors
    /// When the metadata are none, or an argument does not fit them; and those of `make`.
    pub fn each<T: PartialEq>(
        &self,
        metadata: &[u8],
        seed: u64,
        make: impl Fn(&[Input]) -> Result<(T, usize), Error>,
    ) -> Result<Vec<T>, Error> {
        let read =
            |shape: &Shape<'_>, fill: &Filling<'_>| inputs_from_metadata(metadata, shape, fill);
        self.each_of(&read, seed, make)
    }

    /// The same of metadata in any form, which `read` makes inputs of.
    pub(crate) fn each_of<T: PartialEq>(
        &self,
        read: &Read<'_>,
        seed: u64,
        make: impl Fn(&[Input]) -> Result<(T, usize), Error>,
    ) -> Result<Vec<T>, Error> {
        let mut all = Vec::new();
        let mut bytes = 0;
        for nth in 0..MOST {
            let inputs = self.inputs(read, seed.wrapping_mul(MOST).wrapping_add(nth))?;
            let (one, size) = make(&inputs)?;
            if all.last() == Some(&one) {
                break;
            }
            all.push(one);
            bytes += size;
            if bytes > MOST_BYTES {
                break;
            }
        }
        Ok(all)
    }

    /// The given inputs, or else those that the metadata describe.
    fn inputs(&self, read: &Read<'_>, seed: u64) -> Result<Vec<Input>, Error> {
        let inputs = match self.says_inputs() {
            true => {
                let filled = |it: &InputArg| {
                    Input::filled(&it.name, it.dtype, &it.shape, self.fill(&it.name, seed))
                };
                self.input.iter().map(filled).collect::<Result<_, _>>()?
            }
            false => {
                let shape = |name: &str| {
                    self.shape.iter().find(|it| it.0 == name).map(|(_, shape)| shape.clone())
                };
                read(&shape, &|name| self.fill(name, seed))?
            }
        };
        self.check_names(&inputs)?;
        Ok(inputs)
    }

    /// What an input of that name holds. Random tokens make sense to a model only where its mask says that they are
    /// there, and their types are of a table with one or two rows.
    fn fill(&self, name: &str, seed: u64) -> Fill {
        let given = self.value.iter().rev().find(|it| it.0 == name).map(|it| it.1.clone());
        match (given, self.data) {
            (Some(ValueArg::Value(text)), _) => Fill::Value(text),
            (Some(ValueArg::Range(low, high)), _) => Fill::Range { low, high, seed },
            (None, DataArg::Zeros) => Fill::Zeros,
            (None, DataArg::Random) if name.ends_with("attention_mask") => {
                Fill::Value("1".to_owned())
            }
            (None, DataArg::Random) if name.ends_with("token_type_ids") => Fill::Zeros,
            (None, DataArg::Random) => Fill::Random(seed),
        }
    }

    /// Is there an input for each `--value` and each `--shape`?
    fn check_names(&self, inputs: &[Input]) -> Result<(), Error> {
        let values = self.value.iter().map(|it| ("--value", &it.0));
        let shapes = self.shape.iter().map(|it| ("--shape", &it.0));
        let is_there = |name: &String| inputs.iter().any(|it| it.name == *name);
        match values.chain(shapes).find(|it| !is_there(it.1)) {
            Some((option, name)) => {
                let names: Vec<&str> = inputs.iter().map(|it| it.name.as_str()).collect();
                let problem = format!("no input '{name}'; expected one of {}", names.join(", "));
                Err(Error::plan(option, problem))
            }
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct Command {
        #[command(flatten)]
        made_up: MadeUp,
    }

    const METADATA: &[u8] = br#"{"inputs":[{"name":"x","datatype":"INT64","shape":[-1,3]},
        {"name":"attention_mask","datatype":"INT64","shape":[1]}]}"#;

    fn made(arguments: &[&str]) -> Result<Vec<Vec<Input>>, Error> {
        let command = Command::parse_from([&["bench"], arguments].concat());
        command.made_up.each(METADATA, 0, |it| Ok((it.to_vec(), 1)))
    }

    #[test]
    fn requests_differ_where_something_is_random() {
        let random = made(&[]).unwrap();
        assert_eq!(random.len(), 16);
        assert_eq!(random[0][0].shape, [1, 3]);
        assert!(random.iter().all(|it| it[1] == random[0][1]) && random[0][0] != random[1][0]);
        assert_eq!(made(&["--data=zeros", "--shape=x:2,3"]).unwrap().len(), 1);
        assert_eq!(made(&["--input=y:FP32:1", "--value=y=2"]).unwrap()[0][0].name, "y");
    }

    #[test]
    fn a_name_that_no_input_has_is_refused_with_those_there_are() {
        for (argument, option) in [("--value=y=1", "--value"), ("--shape=y:1", "--shape")] {
            let problem = made(&[argument]).unwrap_err().to_string();
            let expected = "no input 'y'; expected one of x, attention_mask";
            assert!(problem.contains(expected) && problem.contains(option), "{problem}");
        }
    }
}
