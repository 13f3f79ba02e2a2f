//! What models share, what is shown of it, and what is refused.

use super::*;
use crate::metrics::custom::MOST_SERIES;
use crate::metrics::{MetricsSettings, ModelOptions};

fn change(
    family: &str,
    kind: MetricKind,
    labels: &[(&str, &str)],
    verb: MetricVerb,
) -> MetricChange {
    let labels = labels.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
    MetricChange {
        family: family.to_owned(),
        description: "what it is".to_owned(),
        kind,
        labels: labels.collect(),
        buckets: match kind {
            MetricKind::Histogram => vec![1.0, 5.0],
            MetricKind::Counter | MetricKind::Gauge => Vec::new(),
        },
        verb,
    }
}

fn metrics() -> Metrics {
    Metrics::new(MetricsSettings::default())
}

/// The lines of models' own families.
fn lines(metrics: &Metrics) -> Vec<String> {
    let text = String::from_utf8(metrics.render().to_vec()).unwrap();
    let of_models = text.lines().filter(|it| it.contains("of_model"));
    of_models.map(str::to_owned).collect()
}

use MetricKind::{Counter, Gauge, Histogram};
use MetricVerb::{Drop, DropFamily, Increment, Make, MakeFamily, Observe, Set, Value as Ask};

#[test]
fn each_kind_counts_in_its_own_way_and_is_shown_behind_the_servers_families() {
    let metrics = metrics();
    let own = metrics.of_own_code();
    for kind in [Counter, Gauge, Histogram] {
        let name = format!("of_model_{kind:?}").to_lowercase();
        let make = change(&name, kind, &[("b", "2"), ("a", "1\"")], Make);
        own.change(&make).unwrap();
        let verbs: &[MetricVerb] = match kind {
            Counter => &[Increment(2.0), Increment(0.5)],
            Gauge => &[Set(7.0), Increment(-0.5)],
            Histogram => &[Observe(1.0), Observe(2.0), Observe(9.0)],
        };
        for verb in verbs {
            own.change(&MetricChange { verb: *verb, ..make.clone() }).unwrap();
        }
    }
    assert_eq!(
        lines(&metrics),
        [
            "# HELP of_model_counter what it is",
            "# TYPE of_model_counter counter",
            r#"of_model_counter{a="1\"",b="2"} 2.5"#,
            "# HELP of_model_gauge what it is",
            "# TYPE of_model_gauge gauge",
            r#"of_model_gauge{a="1\"",b="2"} 6.5"#,
            "# HELP of_model_histogram what it is",
            "# TYPE of_model_histogram histogram",
            r#"of_model_histogram_bucket{a="1\"",b="2",le="1"} 1"#,
            r#"of_model_histogram_bucket{a="1\"",b="2",le="5"} 2"#,
            r#"of_model_histogram_bucket{a="1\"",b="2",le="+Inf"} 3"#,
            r#"of_model_histogram_sum{a="1\"",b="2"} 12"#,
            r#"of_model_histogram_count{a="1\"",b="2"} 3"#,
        ]
    );
}

#[test]
fn what_a_kind_does_not_do_is_an_error_and_changes_nothing() {
    let metrics = metrics();
    let own = metrics.of_own_code();
    let wrong: [(MetricKind, &[MetricVerb]); 3] = [
        (Counter, &[Increment(-1.0), Increment(f64::NAN), Set(1.0), Observe(1.0)]),
        (Gauge, &[Observe(1.0)]),
        (Histogram, &[Increment(1.0), Set(1.0), Ask, Observe(f64::NAN)]),
    ];
    for (kind, verbs) in wrong {
        let name = format!("of_model_{kind:?}");
        own.change(&change(&name, kind, &[], Make)).unwrap();
        let before = lines(&metrics);
        for verb in verbs {
            own.change(&change(&name, kind, &[], *verb)).unwrap_err();
        }
        assert_eq!(lines(&metrics), before);
    }
}

#[test]
fn models_that_make_the_same_series_share_it_until_the_last_of_them_is_gone() {
    let metrics = metrics();
    let (one, other) = (metrics.of_own_code(), metrics.of_own_code());
    let labels = [("a", "1"), ("b", "2")];
    one.change(&change("of_model", Counter, &labels, Make)).unwrap();
    let swapped = [labels[1], labels[0]];
    let verb = |verb| change("of_model", Counter, &swapped, verb);
    assert_eq!(other.change(&verb(Ask)), Err(CustomMetricError::NotMade("of_model".to_owned())));
    other.change(&verb(Make)).unwrap();
    other.change(&verb(Increment(3.0))).unwrap();
    assert_eq!(one.change(&change("of_model", Counter, &labels, Ask)), Ok(3.0));
    // It has made it twice, as after the death of its process.
    one.change(&change("of_model", Counter, &labels, Make)).unwrap();
    drop(one);
    assert_eq!(other.change(&verb(Ask)), Ok(3.0));
    other.change(&verb(Drop)).unwrap();
    assert_eq!(lines(&metrics), [""; 0]);
    // There is nothing left of it, so that it may be another now.
    other.change(&change("of_model", Gauge, &[], Make)).unwrap();
}

#[test]
fn a_family_is_one_by_its_kind_and_description() {
    let metrics = metrics();
    let (one, other) = (metrics.of_own_code(), metrics.of_own_code());
    one.change(&change("of_model", Counter, &[], MakeFamily)).unwrap();
    other.change(&change("of_model", Counter, &[], MakeFamily)).unwrap();
    for verb in [MakeFamily, Make] {
        let text = other.change(&change("of_model", Gauge, &[], verb)).unwrap_err().to_string();
        assert!(text.contains("'of_model'") && text.contains("Counter"), "{text}");
        let mut described = change("of_model", Counter, &[], verb);
        "something else".clone_into(&mut described.description);
        other.change(&described).unwrap_err();
    }
    drop(one);
    other.change(&change("of_model", Gauge, &[], Make)).unwrap_err();
    other.change(&change("of_model", Counter, &[], DropFamily)).unwrap();
    other.change(&change("of_model", Gauge, &[], Make)).unwrap();
}

#[test]
fn a_family_has_a_thousand_series_and_no_more() {
    let metrics = metrics();
    let own = metrics.of_own_code();
    let make = |at: usize| own.change(&change("of_model", Gauge, &[("at", &at.to_string())], Make));
    for at in 0..MOST_SERIES {
        make(at).unwrap();
    }
    assert!(matches!(make(MOST_SERIES), Err(CustomMetricError::TooManySeries { .. })));
    // One that is there is no further one.
    make(0).unwrap();
    own.change(&change("of_model", Gauge, &[("at", "1")], Drop)).unwrap();
    make(MOST_SERIES).unwrap();
}

#[test]
fn names_that_prometheus_or_the_server_have_no_room_for_are_refused() {
    let metrics = metrics();
    let own = metrics.of_own_code();
    let long = "a".repeat(201);
    let families = ["", "1a", "a-b", "ä", "a b", &long, "nv_inference_count", "muster_x", "te_x"];
    for name in families.into_iter().chain(["process_open_fds"]) {
        own.change(&change(name, Gauge, &[], MakeFamily)).unwrap_err();
        own.change(&change(name, Gauge, &[], Make)).unwrap_err();
    }
    let value = "a".repeat(1025);
    let labels = [("", ""), ("1", ""), ("a:b", ""), ("__a", ""), ("le", ""), ("a", &value)];
    for label in labels {
        own.change(&change("of_model", Gauge, &[label], Make)).unwrap_err();
    }
    own.change(&change("of_model", Gauge, &[("a", "1"), ("a", "2")], Make)).unwrap_err();
    own.change(&change("of_model", Histogram, &[], Make)).unwrap();
    for line in ["of_model_bucket", "of_model_sum", "of_model_count"] {
        own.change(&change(line, Gauge, &[], Make)).unwrap_err();
    }
    own.change(&change("of_model_2_sum", Gauge, &[], Make)).unwrap();
    own.change(&change("of_model_2", Histogram, &[], Make)).unwrap_err();
}

#[test]
fn all_names_of_the_server_are_refused() {
    let metrics = metrics();
    let _model = metrics.model("m", 1, &ModelOptions::default());
    let text = String::from_utf8(metrics.render().to_vec()).unwrap();
    let names = text.lines().filter_map(|it| it.strip_prefix("# TYPE ")?.split(' ').next());
    let names: Vec<&str> = names.collect();
    assert!(20 < names.len());
    let own = metrics.of_own_code();
    for name in names {
        let made = own.change(&change(name, Gauge, &[], Make));
        assert_eq!(made, Err(CustomMetricError::OwnName(name.to_owned())));
    }
}

#[test]
fn a_histogram_has_ascending_buckets_and_nothing_else_has_some() {
    let metrics = metrics();
    let own = metrics.of_own_code();
    for buckets in [&[][..], &[2.0, 1.0], &[1.0, 1.0], &[f64::NAN]] {
        let buckets = buckets.to_vec();
        let made = own.change(&MetricChange { buckets, ..change("h", Histogram, &[], Make) });
        assert!(matches!(made, Err(CustomMetricError::Buckets { .. })), "{made:?}");
    }
    let buckets = vec![1.0];
    own.change(&MetricChange { buckets, ..change("g", Gauge, &[], Make) }).unwrap_err();
    own.change(&change("h", Histogram, &[], Make)).unwrap();
    let buckets = vec![1.0, 6.0];
    own.change(&MetricChange { buckets, ..change("h", Histogram, &[], Make) }).unwrap_err();
}
