//! Reads and writes a model's configuration: `config.pbtxt` text, and JSON as clients know it.

mod lenient;
mod place;

use std::sync::OnceLock;

use prost::Message;
use prost_reflect::{
    DescriptorPool, DeserializeOptions, DynamicMessage, Kind, MessageDescriptor, SerializeOptions,
};
use serde_json::Value as Json;

use crate::config::pbtxt::{lenient::strict, place::given_at};
use inference::signature::nearest;
use serving::config::raw::ModelConfig as RawConfig;
pub use textproto::{ReadError, TextProblem};

/// What errors call it.
const WHOLE: &str = "a model's configuration";

/// The longest configuration that is read. What is made of one takes up to sixty times as much memory.
pub(crate) const MOST_BYTES: u64 = 2 << 20;

/// How the library's message about an unknown field begins.
const UNKNOWN: &str = "unrecognized field name '";

fn check_length(file: &str, text: &str) -> Result<(), ReadError> {
    let bytes = text.len() as u64;
    if bytes <= MOST_BYTES {
        return Ok(());
    }
    let text = format!("{WHOLE} has {bytes} bytes; at most {MOST_BYTES} are read");
    let problems = vec![TextProblem { line: 1, column: 1, text }];
    Err(ReadError { file: file.to_owned(), problems })
}

/// Knows the fields of a model's configuration. Made once and shared; costs nothing until first used.
#[derive(Default)]
pub struct ConfigReader {
    descriptor: OnceLock<MessageDescriptor>,
}

impl ConfigReader {
    /// Reads `config.pbtxt` text. `file` is what errors call it.
    pub fn parse_text(&self, file: &str, text: &str) -> Result<RawConfig, ReadError> {
        check_length(file, text)?;
        textproto::parse(self.descriptor().clone(), WHOLE, text)
            .map(|it| typed(&it))
            .map_err(|problems| ReadError { file: file.to_owned(), problems })
    }

    /// Reads JSON with the names of the text format or their `lowerCamelCase` forms, and what else protobuf's reader
    /// takes: single values for lists, numbers and truth values in quotes, names of enum values in any case. `file` is
    /// what errors call it.
    pub fn parse_json(&self, file: &str, json: &str) -> Result<RawConfig, ReadError> {
        check_length(file, json)?;
        self.read_json(file, json).or_else(|error| {
            let Some(strict) = strict(json, self.descriptor()) else { return Err(error) };
            self.read_json(file, &strict.json).map_err(|mut error| {
                for it in &mut error.problems {
                    it.column = strict.column_before(it.line, it.column);
                }
                error
            })
        })
    }

    fn read_json(&self, file: &str, json: &str) -> Result<RawConfig, ReadError> {
        let mut deserializer = serde_json::Deserializer::from_str(json);
        let options = DeserializeOptions::new();
        let message = DynamicMessage::deserialize_with_options(
            self.descriptor().clone(),
            &mut deserializer,
            &options,
        );
        match message.and_then(|message| deserializer.end().map(|()| message)) {
            Ok(message) => Ok(typed(&message)),
            Err(error) => {
                let text = error.to_string();
                let text = text.rsplit_once(" at line ").map_or(&*text, |(text, _)| text);
                let is_of_value = error.is_data() && !text.starts_with(UNKNOWN);
                let (line, column) = (error.line(), error.column());
                let given =
                    is_of_value.then(|| given_at(json, self.descriptor(), line, column)).flatten();
                let text = match given {
                    Some(given) => given.said(text),
                    None => self.with_hint(text),
                };
                let problem = TextProblem { line: error.line(), column: error.column(), text };
                Err(ReadError { file: file.to_owned(), problems: vec![problem] })
            }
        }
    }

    /// The configuration as clients see it: names as in the text format, every plain and repeated field
    /// present even at its default, absent messages left out, 64-bit integers as numbers, enums by name.
    /// Fields are in the order of their numbers, entries of maps in that of their keys.
    pub fn to_json(&self, config: &RawConfig) -> Json {
        let options = SerializeOptions::new()
            .use_proto_field_name(true)
            .skip_default_fields(false)
            .stringify_64_bit_integers(false);
        let mut json = self
            .dynamic(config)
            .serialize_with_options(serde_json::value::Serializer, &options)
            .expect("a message of numbers, strings and lists has a JSON form");
        sort_maps(&mut json, self.descriptor());
        json
    }

    fn dynamic(&self, config: &RawConfig) -> DynamicMessage {
        let mut message = DynamicMessage::new(self.descriptor().clone());
        message.transcode_from(config).expect("both come from one definition");
        message
    }

    fn descriptor(&self) -> &MessageDescriptor {
        self.descriptor.get_or_init(|| {
            let definition =
                include_bytes!("../../../../proto/generated/model_config/model_config.bin");
            let pool = DescriptorPool::decode(definition.as_slice()).expect("made by the build");
            pool.get_message_by_name("inference.ModelConfig").expect("is in the definition")
        })
    }

    /// Adds the nearest field name to the library's message about an unknown one.
    fn with_hint(&self, text: &str) -> String {
        let unknown = text.strip_prefix(UNKNOWN);
        let Some(name) = unknown.and_then(|it| it.strip_suffix('\'')) else {
            return text.to_owned();
        };
        let pool = self.descriptor().parent_pool();
        let fields: Vec<String> = pool
            .all_messages()
            .flat_map(|it| it.fields().map(|it| it.name().to_owned()).collect::<Vec<_>>())
            .collect();
        let hint = nearest(name, fields.iter().map(String::as_str))
            .map(|it| format!("; did you mean '{it}'?"))
            .unwrap_or_default();
        format!("'{name}' is not a field of {WHOLE}{hint}")
    }
}

/// Sorts the entries of maps, whose order is otherwise left to chance.
fn sort_maps(json: &mut Json, desc: &MessageDescriptor) {
    for field in desc.fields() {
        let Some(value) = json.get_mut(field.name()) else { continue };
        let Kind::Message(message) = field.kind() else { continue };
        match value {
            Json::Object(map) if field.is_map() => {
                map.sort_keys();
                let Kind::Message(entry) = message.map_entry_value_field().kind() else { continue };
                map.values_mut().for_each(|it| sort_maps(it, &entry));
            }
            Json::Array(list) => list.iter_mut().for_each(|it| sort_maps(it, &message)),
            one => sort_maps(one, &message),
        }
    }
}

fn typed(message: &DynamicMessage) -> RawConfig {
    RawConfig::decode(message.encode_to_vec().as_slice()).expect("both come from one definition")
}

#[cfg(test)]
mod tests;
