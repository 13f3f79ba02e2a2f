//! The page of a comparison: two servers in interleaved blocks.

use serde_json::{Value, json};

use super::{Chart, Page, Row, Series, Table, number, report::row};
use crate::{Comparison, Ratio, Report, Typical};

impl Comparison {
    /// The findings as a page.
    pub fn page(&self) -> Page {
        let of_ratio = |name: &str, ratio: &Ratio| (format!("{name}, B / A"), number(ratio.median));
        let mut facts =
            vec![of_ratio("Throughput", &self.throughput), of_ratio("Median latency", &self.p50)];
        facts.extend(self.server_cpu.iter().map(|it| of_ratio("Processor time of the server", it)));
        facts.push(("Pairs of blocks".to_owned(), number(self.pairs as f64)));
        let milliseconds = |it: &Report| it.latency.p50.as_secs_f64() * 1e3;
        Page {
            title: format!("{} (A) beside {} (B)", self.a, self.b),
            verdict: self.verdict(),
            facts,
            warnings: self.warnings.clone(),
            charts: vec![
                self.by_pair("Throughput of each pair", "replies per second", |it| it.throughput),
                self.by_pair("Median latency of each pair", "milliseconds", milliseconds),
            ],
            tables: vec![self.ratios(), self.blocks()],
            notes: vec![
                "Blocks were run as AB, BA, AB and so on, so that a drift of the machine falls on both alike.".to_owned(),
                "A ratio is the median of the ratios of all pairs, with its bootstrap interval of 95 %. A difference \
                 is claimed only where the interval excludes 1."
                    .to_owned(),
                format!(
                    "{} pairs count; {} more were dropped, as more of the machine's time was stolen than allowed.",
                    self.pairs, self.dropped
                ),
            ],
            ..Page::default()
        }
    }

    /// Which of the two is the faster, in two sentences.
    fn verdict(&self) -> String {
        let times = |ratio: &Ratio| {
            let Ratio { median, low, high } = ratio;
            format!("{median:.2} times ({low:.2} to {high:.2})")
        };
        let throughput = match self.throughput.differs() {
            true => {
                format!("B answers {} as many requests per second as A.", times(&self.throughput))
            }
            false => format!(
                "No difference in throughput is shown: B answers {} as many requests per second as A.",
                times(&self.throughput)
            ),
        };
        let latency = match self.p50.differs() {
            true => format!("Its median latency is {} that of A.", times(&self.p50)),
            false => "No difference in median latency is shown.".to_owned(),
        };
        format!("{throughput} {latency}")
    }

    /// A figure of the blocks of both, over the pairs.
    fn by_pair(&self, title: &str, y_label: &str, of: impl Fn(&Report) -> f64) -> Chart {
        let values = |blocks: &[Report]| blocks.iter().map(|it| Some(of(it))).collect();
        let series = |name: &str, blocks: &[Report]| Series {
            name: name.to_owned(),
            values: values(blocks),
            line: true,
        };
        Chart {
            title: title.to_owned(),
            x_label: "pair".to_owned(),
            y_label: y_label.to_owned(),
            x: (1..=self.blocks_a.len().min(self.blocks_b.len())).map(|it| it as f64).collect(),
            series: vec![series("A", &self.blocks_a), series("B", &self.blocks_b)],
            points: true,
            ..Chart::default()
        }
    }

    /// What an ordinary block of each did, and the ratios.
    fn ratios(&self) -> Table {
        let line = |name: &str, ratio: Option<&Ratio>, of: &dyn Fn(&Typical) -> Option<f64>| {
            let (a, b) = (of(&self.typical_a), of(&self.typical_b));
            let of_ratio = |of: &dyn Fn(&Ratio) -> Value| ratio.map_or(Value::Null, of);
            row([
                json!(name),
                json!(a),
                json!(b),
                of_ratio(&|it| json!(format!("{:.4}", it.median))),
                of_ratio(&|it| json!(format!("{:.4} to {:.4}", it.low, it.high))),
                of_ratio(&|it| json!(if it.differs() { "yes" } else { "no" })),
            ])
        };
        let rows = [
            line("replies/s", Some(&self.throughput), &|it| Some(it.throughput)),
            line("p50 ms", Some(&self.p50), &|it| Some(it.p50_us / 1e3)),
            line("p99 ms", None, &|it| Some(it.p99_us / 1e3)),
            line("server, µs of processor time per reply", self.server_cpu.as_ref(), &|it| {
                it.server_cpu_per_request_us
            }),
            line("generator, µs of processor time per reply", None, &|it| {
                Some(it.generator_cpu_per_request_us)
            }),
        ];
        let has_any = |it: &Row| it.cells.iter().any(Value::is_number);
        Table {
            title: "Medians of the pairs that count".to_owned(),
            columns: ["of a block", "A", "B", "B / A", "95 % interval", "difference shown"]
                .map(str::to_owned)
                .into(),
            rows: rows.into_iter().filter(has_any).collect(),
        }
    }

    /// Each pair, those that were dropped included.
    fn blocks(&self) -> Table {
        let bad = |it: &Report| it.requests - it.ok;
        let cells = |(index, (a, b)): (usize, (&Report, &Report))| {
            row([
                json!(index + 1),
                json!(a.throughput),
                json!(b.throughput),
                json!(a.latency.p50.as_secs_f64() * 1e3),
                json!(b.latency.p50.as_secs_f64() * 1e3),
                json!(bad(a)),
                json!(bad(b)),
                json!(a.steal.max(b.steal) * 100.0),
            ])
        };
        let columns = [
            "pair",
            "A replies/s",
            "B replies/s",
            "A p50 ms",
            "B p50 ms",
            "A without 2xx",
            "B without 2xx",
            "stolen %",
        ];
        Table {
            title: "Pairs of blocks".to_owned(),
            columns: columns.map(str::to_owned).into(),
            rows: self.blocks_a.iter().zip(&self.blocks_b).enumerate().map(cells).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn comparison(throughput: [f64; 3], p50: [f64; 3]) -> Comparison {
        let ratio = |[low, median, high]: [f64; 3]| Ratio { median, low, high };
        let typical = Typical {
            throughput: 1234.0,
            p50_us: 1500.0,
            p99_us: 9000.0,
            server_cpu_per_request_us: None,
            generator_cpu_per_request_us: 12.0,
        };
        Comparison {
            a: "http://a".to_owned(),
            b: "http://b".to_owned(),
            pairs: 20,
            dropped: 1,
            throughput: ratio(throughput),
            p50: ratio(p50),
            server_cpu: None,
            typical_a: typical,
            typical_b: typical,
            warnings: Vec::new(),
            blocks_a: Vec::new(),
            blocks_b: Vec::new(),
        }
    }

    #[test]
    fn a_difference_is_claimed_only_where_its_interval_excludes_one() {
        let faster = comparison([1.05, 1.1, 1.2], [0.9, 1.0, 1.1]).page();
        let expected = "B answers 1.10 times (1.05 to 1.20) as many requests per second as A. No difference in median \
                        latency is shown.";
        assert_eq!(faster.verdict, expected);
        let level = comparison([0.9, 1.1, 1.2], [0.5, 0.6, 0.7]).page();
        let begins =
            "No difference in throughput is shown: B answers 1.10 times (0.90 to 1.20) as many";
        assert!(level.verdict.starts_with(begins), "{}", level.verdict);
        let ends = "Its median latency is 0.60 times (0.50 to 0.70) that of A.";
        assert!(level.verdict.ends_with(ends), "{}", level.verdict);
    }

    #[test]
    fn figures_that_nobody_measured_have_no_line() {
        let html = comparison([1.0; 3], [1.0; 3]).page().to_html();
        assert!(html.contains("<div>1,234</div>") && !html.contains("server, µs"), "{html}");
    }
}
