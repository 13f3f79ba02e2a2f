//! GPUs in the text.

use super::*;

/// Two GPUs, of which the second has no power sensor.
struct FakeSensors {
    reads: Arc<AtomicI64>,
}

impl Sensors for FakeSensors {
    fn read(&mut self) -> Vec<Reading> {
        let round = self.reads.fetch_add(1, Relaxed) as f64;
        let reading = |uuid: &str, sensor, value| Reading { uuid: uuid.into(), sensor, value };
        vec![
            reading("GPU-a", Sensor::Utilization, Ok(0.25 * round)),
            reading("GPU-a", Sensor::MemoryTotal, Ok(16e9)),
            reading("GPU-a", Sensor::MemoryUsed, Ok(4e9)),
            reading("GPU-a", Sensor::PowerUsage, Ok(71.5)),
            reading("GPU-a", Sensor::PowerLimit, Ok(150.0)),
            reading("GPU-a", Sensor::Energy, Ok(1234.5)),
            reading("GPU-b", Sensor::Utilization, Ok(1.0)),
            reading("GPU-b", Sensor::PowerUsage, Err("not supported".into())),
        ]
    }
}

fn with_gpus() -> (Metrics, Arc<AtomicI64>) {
    let reads = Arc::new(AtomicI64::new(0));
    let sensors = Box::new(FakeSensors { reads: reads.clone() });
    (Metrics::with_gpus(MetricsSettings::default(), Some(sensors)), reads)
}

#[test]
fn gpus_are_shown_under_tritons_names_once_they_were_sampled() {
    let (metrics, _) = with_gpus();
    check(&metrics, "nv_gpu", &[]);
    metrics.sample_gpus();
    metrics.sample_gpus();
    check(
        &metrics,
        "nv_gpu",
        &[
            "nv_gpu_utilization{gpu_uuid=\"GPU-a\"} 0.25",
            "nv_gpu_utilization{gpu_uuid=\"GPU-b\"} 1",
            "nv_gpu_memory_total_bytes{gpu_uuid=\"GPU-a\"} 16000000000",
            "nv_gpu_memory_used_bytes{gpu_uuid=\"GPU-a\"} 4000000000",
            "nv_gpu_power_usage{gpu_uuid=\"GPU-a\"} 71.5",
            "nv_gpu_power_limit{gpu_uuid=\"GPU-a\"} 150",
        ],
    );
    check(&metrics, "nv_energy", &["nv_energy_consumption{gpu_uuid=\"GPU-a\"} 1234.5"]);
    let families = parse(&text(&metrics));
    assert_eq!(families["nv_gpu_utilization"].kind, "gauge");
    assert_eq!(families["nv_energy_consumption"].kind, "counter");
}

#[test]
fn without_gpus_there_are_no_families_of_theirs() {
    let metrics = metrics();
    metrics.sample_gpus();
    assert!(!text(&metrics).contains("nv_gpu") && !text(&metrics).contains("nv_energy"));
}

#[test]
fn the_gpu_of_a_model_is_a_label_in_its_place_in_the_alphabet() {
    let metrics = metrics();
    let options = ModelOptions {
        tags: [("team".to_owned(), "a".to_owned())].into(),
        gpu_uuid: Some("GPU-a".to_owned()),
        ..ModelOptions::default()
    };
    let _model = metrics.model("m", 1, &options);
    check(
        &metrics,
        "nv_inference_count",
        &["nv_inference_count{_team=\"a\",gpu_uuid=\"GPU-a\",model=\"m\",version=\"1\"} 0"],
    );
}
