//! The step `audio`: files of sounds to the samples that a graph takes, padded to the longest of a request.

use ::audio::{Limits, SoundError, Wav2Vec2, inspect, read_while};
use backend::{BackendError, DataType, NamedTensor};

use super::{
    bounds::{FileBounds, granted},
    call::{Call, invalid, stopped},
    kept::MASK,
    kind::{Opened, Run},
    ports::{FLOAT, INTEGERS, TEXT, port, spec},
    settings::StepSettings,
};

pub(super) const PARAMETERS: &[&str] =
    &["sampling_rate", "do_normalize", "mono", "padding", "max_seconds"];

const AUDIO: &str = "audio";
const VALUES: &str = "input_values";

/// All rows of a request together, padding included, are as long as this many of the longest sounds.
const LONGEST_ROWS: f64 = 4.0;

struct Sounds {
    extractor: Wav2Vec2,
    limits: Limits,
    /// Are sounds of unequal length padded?
    pads: bool,
    bounds: FileBounds,
}

/// Opens it.
///
/// # Errors
/// When a parameter is wrong.
pub(super) fn open(settings: &StepSettings<'_>) -> Result<Opened, BackendError> {
    let usual = Wav2Vec2::default();
    let bounds = Limits::default();
    let sampling_rate = match settings.count("sampling_rate")? {
        None => usual.sampling_rate,
        Some(rate) => match u32::try_from(rate).ok().filter(|it| *it <= bounds.max_rate) {
            Some(rate) => rate,
            None => {
                let problem = format!("{rate} is above {}", bounds.max_rate);
                return Err(settings.wrong("sampling_rate", problem));
            }
        },
    };
    if settings.flag("mono")? == Some(false) {
        let problem = "channels are averaged, as models of speech take one; it is true";
        return Err(settings.wrong("mono", problem));
    }
    let pads = settings.named("padding", &["batch", "none"], |name| match name {
        "batch" => Some(true),
        "none" => Some(false),
        _ => None,
    })?;
    let do_normalize = settings.flag("do_normalize")?.unwrap_or(usual.do_normalize);
    let max_seconds = settings.bounds.seconds(settings.count("max_seconds")?) as f64;
    let step = Sounds {
        extractor: Wav2Vec2 { sampling_rate, do_normalize, ..usual },
        limits: Limits { max_seconds, ..bounds },
        pads: pads.unwrap_or(true),
        bounds: settings.bounds.clone(),
    };
    let spec = spec(
        settings.source,
        &[port(AUDIO, TEXT, &[None, Some(1)])],
        &[port(VALUES, FLOAT, &[None, None]), port(MASK, INTEGERS, &[None, None])],
    );
    Ok(Opened { spec, run: Box::new(step) })
}

impl Run for Sounds {
    fn run(&self, call: &Call<'_>) -> Result<Vec<NamedTensor>, BackendError> {
        let tensor = call.tensor(AUDIO)?;
        if tensor.dtype() != DataType::Bytes {
            let problem = format!("it is {}, files of sounds are BYTES", tensor.dtype());
            return Err(invalid(AUDIO, &problem));
        }
        let files: Vec<&[u8]> = tensor.strings().collect();
        let inspect = |(row, file): (usize, &&[u8])| {
            inspect(file, &self.limits).map_err(|error| of_row(row, &error))
        };
        let headers = files.iter().enumerate().map(inspect).collect::<Result<Vec<_>, _>>()?;
        let mut room = self.bounds.room();
        let mut rows: Vec<Vec<f32>> = Vec::with_capacity(files.len());
        let mut longest = 0;
        for (row, (file, header)) in files.into_iter().zip(headers).enumerate() {
            call.check()?;
            let bytes = header.most_bytes(self.extractor.sampling_rate, &self.limits);
            granted(room.take(usize::try_from(bytes).unwrap_or(usize::MAX)))?;
            let is_wanted = || !call.batch.stop.is_over();
            let samples = read_while(file, self.extractor.sampling_rate, &self.limits, &is_wanted)
                .map_err(|error| match error {
                    SoundError::Stopped => stopped(),
                    error => of_row(row, &error),
                })?;
            let first = rows.first().map_or(samples.len(), Vec::len);
            if !self.pads && samples.len() != first {
                let problem = format!(
                    "row {row}: it has {} samples, row 0 {first}, and they are not padded; send them one by one, or \
                     write padding: batch",
                    samples.len()
                );
                return Err(invalid(AUDIO, &problem));
            }
            longest = longest.max(samples.len());
            room.keep(size_of_val(&*samples));
            self.check_room(row, longest)?;
            rows.push(self.extractor.features(samples).input_values);
        }
        let dims = [rows.len(), longest];
        // The values of all rows beside those of each, and the mask.
        let is_wanted = |name: &str| call.batch.outputs.iter().any(|it| &**it == name);
        let of_sample = if is_wanted(MASK) { 4 + 8 } else { 4 };
        granted(room.take(rows.len() * longest * of_sample))?;
        let mut output = |name: &std::sync::Arc<str>| match &**name {
            MASK => {
                let mask = |it: &Vec<f32>| {
                    let (sounds, padding) = (it.len(), longest - it.len());
                    std::iter::repeat_n(1, sounds).chain(std::iter::repeat_n(0, padding))
                };
                call.integer_output(MASK, &dims, rows.iter().flat_map(mask).collect())
            }
            _ => {
                let mut values = Vec::with_capacity(rows.len() * longest);
                for row in &rows {
                    values.extend_from_slice(row);
                    let padding = longest - row.len();
                    values.extend(std::iter::repeat_n(self.extractor.padding_value, padding));
                }
                call.float_output(VALUES, &dims, values)
            }
        };
        let made: Result<_, _> = call.batch.outputs.iter().map(&mut output).collect();
        Ok(room.hold(made?))
    }
}

impl Sounds {
    /// Refuses the row with which all together would be too long.
    fn check_room(&self, row: usize, longest: usize) -> Result<(), BackendError> {
        let seconds = longest as f64 / f64::from(self.extractor.sampling_rate) * (row as f64 + 1.0);
        let allowed = LONGEST_ROWS * self.limits.max_seconds;
        // The last sample may lie beyond the last whole second.
        if seconds <= allowed + 1.0 {
            return Ok(());
        }
        let problem = format!(
            "row {row}: with it all rows, padded, have {seconds:.1} s, at most {allowed} s are taken; send fewer sounds"
        );
        Err(invalid(AUDIO, &problem))
    }
}

fn of_row(row: usize, error: &SoundError) -> BackendError {
    invalid(AUDIO, &format!("row {row}: {error}"))
}
