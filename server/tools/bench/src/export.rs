//! How findings leave the program: as a table for people, as JSON, as a log of HDR histograms.

use std::{
    fmt,
    fs::{self, File},
    io::{self, BufWriter, Write},
    path::Path,
    time::{Duration, SystemTime},
};

use hdrhistogram::serialization::{
    V2DeflateSerializer,
    interval_log::{IntervalLogWriterBuilder, Tag},
};
use serde::Serialize;

use crate::{
    Comparison, Error, FirstBad, GpuUsage, Interval, Latency, Limit, Ratio, Report, Typical, Usage,
    limit::NO_LIMIT,
};

impl fmt::Display for Report {
    /// A table of about fifteen lines; lines that would say nothing are left out.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let loop_text = match self.rate {
            None => "closed loop".to_owned(),
            Some(rate) => format!("open loop at {rate} requests/s"),
        };
        let connections = self.connections;
        let plural = if connections == 1 { "" } else { "s" };
        writeln!(f, "{}: {loop_text} over {connections} connection{plural}", self.target)?;
        let elapsed = self.elapsed.as_secs_f64();
        writeln!(f, "  requests    {} in {elapsed:.2} s", self.requests)?;
        writeln!(f, "  throughput  {:.1} replies/s", self.throughput)?;
        write!(f, "  goodput     {:.1} 2xx/s", self.goodput)?;
        match self.deadline {
            Some(deadline) => writeln!(f, " within {}", time(deadline))?,
            None => writeln!(f)?,
        }
        row(f, "latency   ", &self.latency)?;
        if self.windows.len() > 1 {
            for window in &self.windows {
                let start = window.start.as_secs_f64();
                writeln!(f, "  from {start:>6.1} s {}", StepLine(window))?;
            }
        }
        if let Some(latency) = &self.refusal_latency {
            row(f, "not 2xx   ", latency)?;
        }
        let statuses: Vec<String> =
            self.statuses.iter().map(|(status, count)| format!("{status}: {count}")).collect();
        writeln!(f, "  statuses    {}", statuses.join("  "))?;
        for (status, body) in self.refusals.iter().filter(|it| !it.1.is_empty()) {
            writeln!(f, "  first {status}   {body}")?;
        }
        let failures = self.failures;
        if failures.total() > 0 {
            writeln!(
                f,
                "  failures    connect: {}  reset: {}  timeout: {}  malformed: {}",
                failures.connect, failures.reset, failures.timeout, failures.malformed
            )?;
        }
        for (kind, problem) in &self.problems {
            writeln!(f, "  first {kind}  {problem}")?;
        }
        if let Some(FirstBad { at, users, request, number, problem }) = &self.first_bad {
            let plural = if *users == 1 { "" } else { "s" };
            let (at, body) = (at.as_secs_f64(), request + 1);
            writeln!(
                f,
                "  first bad   after {at:.2} s, with {users} user{plural}, request {number}, body {body}: {problem}"
            )?;
        }
        if self.rate.is_some() {
            let Report { waited, late, unsent, .. } = self;
            writeln!(f, "  schedule    waited: {waited}  late: {late}  unsent: {unsent}")?;
        }
        if self.checked > 0 {
            writeln!(f, "  checked     {} answers, {} wrong", self.checked, self.wrong)?;
        }
        if self.reconnects > 0 {
            writeln!(f, "  reconnects  {}", self.reconnects)?;
        }
        let rate = |bytes: u64| bytes as f64 / 1e6 / elapsed.max(f64::EPSILON);
        let (sent, received) = (rate(self.bytes_sent), rate(self.bytes_received));
        writeln!(f, "  transfer    {sent:.2} MB/s sent, {received:.2} MB/s received")?;
        if let Some(server) = &self.server {
            writeln!(
                f,
                "  server      {} per request, {:.2} cores, {:.2} + {:.2} context switches per request",
                time(server.cpu.per_request),
                server.cpu.cores,
                server.voluntary_switches_per_request,
                server.involuntary_switches_per_request
            )?;
        }
        let generator = &self.generator;
        let per_request = time(generator.per_request);
        writeln!(f, "  generator   {per_request} per request, {:.2} cores", generator.cores)?;
        for warning in &self.warnings {
            writeln!(f, "  WARNING     {warning}")?;
        }
        Ok(())
    }
}

impl fmt::Display for Comparison {
    /// A table of both and their ratios.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Comparison { a, b, pairs, dropped, throughput, p50, .. } = self;
        let Comparison { server_cpu, typical_a, typical_b, .. } = self;
        writeln!(f, "A = {a}\nB = {b}")?;
        writeln!(f, "{pairs} pairs of blocks, {dropped} more dropped for stolen time")?;
        writeln!(f, "                        A           B   B / A    95 % interval")?;
        let shown = |show: &dyn Fn(&Typical) -> String| [show(typical_a), show(typical_b)];
        let cpu = |it: &Typical| it.server_cpu_per_request_us.map_or_else(String::new, micros);
        let rows = [
            ("throughput ", Some(throughput), shown(&|it| format!("{:.0} /s", it.throughput))),
            ("p50 latency", Some(p50), shown(&|it| micros(it.p50_us))),
            ("server CPU ", server_cpu.as_ref(), shown(&cpu)),
        ];
        for (name, ratio, [a, b]) in rows {
            let Some(ratio) = ratio else { continue };
            let Ratio { median, low, high } = ratio;
            let verdict = match ratio.differs() {
                true => "",
                false => "  no difference shown",
            };
            writeln!(f, "  {name} {a:>11} {b:>11}   {median:.4}   [{low:.4}, {high:.4}]{verdict}")?;
        }
        for warning in &self.warnings {
            writeln!(f, "  WARNING  {warning}")?;
        }
        Ok(())
    }
}

impl fmt::Display for Limit {
    /// What was found, and by which rule.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.best {
            Some(best) => {
                let Interval { users, throughput, latency, .. } = best;
                let (p99, why) = (time(latency.p99), self.bend.in_words());
                let plural = if *users == 1 { "" } else { "s" };
                writeln!(
                    f,
                    "limit: {throughput:.1} replies/s with {users} user{plural}, p99 {p99}; {why}"
                )?;
            }
            None => writeln!(f, "limit: none; {NO_LIMIT}")?,
        }
        writeln!(f, "{}", self.rule())
    }
}

/// One step on one line.
pub(crate) struct StepLine<'a>(pub(crate) &'a Interval);

impl fmt::Display for StepLine<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Interval { users, throughput, errors, latency, server, .. } = self.0;
        let [p50, p95, p99] = [latency.p50, latency.p95, latency.p99].map(time);
        write!(
            f,
            "{users:>5} users  {throughput:>9.1}/s  p50 {p50:>8}  p95 {p95:>8}  p99 {p99:>8}"
        )?;
        if let Some(server) = server {
            write!(f, "  {:.2} cores, {:.0} MB", server.cores, server.resident as f64 / 1e6)?;
        }
        match errors {
            0 => Ok(()),
            _ => write!(f, "  {errors} errors"),
        }
    }
}

fn row(f: &mut fmt::Formatter<'_>, name: &str, latency: &Latency) -> fmt::Result {
    let Latency { mean, p50, p90, p95, p99, p99_9, max } = *latency;
    writeln!(
        f,
        "  {name}  p50 {}  p90 {}  p95 {}  p99 {}  p99.9 {}  max {}  mean {}",
        time(p50),
        time(p90),
        time(p95),
        time(p99),
        time(p99_9),
        time(max),
        time(mean)
    )
}

/// Three or four digits and a unit.
fn time(value: Duration) -> String {
    micros(value.as_nanos() as f64 / 1e3)
}

/// [`time`] of a number of microseconds.
fn micros(micros: f64) -> String {
    match micros {
        ..100.0 => format!("{micros:.2} us"),
        100.0..1e4 => format!("{micros:.0} us"),
        1e4..1e7 => format!("{:.1} ms", micros / 1e3),
        _ => format!("{:.2} s", micros / 1e6),
    }
}

/// A report or a comparison as one JSON object, with line breaks.
///
/// # Errors
/// When `out` cannot be written to.
pub fn write_json(value: &impl Serialize, out: &mut impl Write) -> io::Result<()> {
    serde_json::to_writer_pretty(&mut *out, value)?;
    writeln!(out)
}

/// Writes intervals as CSV, with a line of names. Before each come its values of the columns `names`.
///
/// # Errors
/// When the file cannot be written.
pub fn write_csv<'a>(
    path: &Path,
    names: &[&str],
    lines: impl IntoIterator<Item = (Vec<String>, &'a Interval)>,
) -> Result<(), Error> {
    let mut text: String = names.iter().map(|it| format!("{it},")).collect();
    text.push_str(
        "start_s,end_s,users,requests,errors,replies_per_s,mean_us,p50_us,p90_us,p95_us,p99_us,p99_9_us,max_us,\
         server_cores,server_resident_bytes,gpu_utilization,gpu_memory_bytes\n",
    );
    for (values, it) in lines {
        values.iter().for_each(|it| text += &format!("{},", csv_value(it)));
        let Latency { mean, p50, p90, p95, p99, p99_9, max } = it.latency;
        let [start, end] = [it.start, it.end].map(|it| it.as_secs_f64());
        let Interval { users, requests, errors, throughput, .. } = it;
        text += &format!("{start},{end},{users},{requests},{errors},{throughput}");
        for latency in [mean, p50, p90, p95, p99, p99_9, max] {
            text += &format!(",{}", latency.as_nanos() as f64 / 1e3);
        }
        text += &match it.server {
            Some(Usage { cores, resident }) => format!(",{cores},{resident}"),
            None => ",,".to_owned(),
        };
        text += &match it.gpu {
            Some(GpuUsage { utilization, memory }) => format!(",{utilization},{memory}\n"),
            None => ",,\n".to_owned(),
        };
    }
    fs::write(path, text).map_err(|source| Error::File { path: path.to_owned(), source })
}

/// A value as a line of CSV has it: in quotes where it holds what would end it.
fn csv_value(value: &str) -> String {
    match value.contains([',', '"', '\n', '\r']) {
        true => format!("\"{}\"", value.replace('"', "\"\"")),
        false => value.to_owned(),
    }
}

/// Writes the latencies of `reports` as an HDR histogram log (version 1.3, V2 compressed, base64): one
/// line per report, tagged by its place in the list, in nanoseconds with maxima in milliseconds.
///
/// # Errors
/// When the file cannot be written.
pub fn write_histograms(path: &Path, reports: &[&Report]) -> Result<(), Error> {
    let failed = |source| Error::File { path: path.to_owned(), source };
    let mut file = BufWriter::new(File::create(path).map_err(failed)?);
    let mut serializer = V2DeflateSerializer::new();
    let ended = SystemTime::now();
    let mut log = IntervalLogWriterBuilder::new()
        .add_comment("latencies of 2xx replies in nanoseconds")
        .with_base_time(ended)
        .with_max_value_divisor(1e6)
        .begin_log_with(&mut file, &mut serializer)
        .map_err(failed)?;
    let mut start = Duration::ZERO;
    for (index, report) in reports.iter().enumerate() {
        let tag = format!("{index}");
        log.write_histogram(&report.histogram, start, report.elapsed, Tag::new(&tag))
            .map_err(|error| failed(io::Error::other(error.to_string())))?;
        start += report.elapsed;
    }
    drop(log);
    file.flush().map_err(failed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_that_would_end_a_field_is_in_quotes() {
        let values = ["automatic", "A=1,2", "a \"b\""].map(csv_value);
        assert_eq!(values, ["automatic", "\"A=1,2\"", "\"a \"\"b\"\"\""]);
    }
}
