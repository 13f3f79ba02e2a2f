//! What Triton's statistics extension says of one model version.

pub use inference::statistics::{
    BatchStatistics, MemoryUsage, ResponseStatistics, Statistics, Total,
};

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant, SystemTime};

    use inference::timings::Timings;

    use super::*;
    use crate::metrics::{
        BatchReason, FailureReason, Metrics, MetricsSettings, ModelMetrics, ModelOptions,
    };

    fn model(metrics: &Metrics) -> ModelMetrics {
        metrics.model("m", 1, &ModelOptions::default())
    }

    fn timings(batch_rows: usize) -> Timings {
        let micros = Duration::from_micros;
        Timings {
            started: Instant::now(),
            queue: micros(20),
            prepare: Duration::ZERO,
            rows: Duration::ZERO,
            input: micros(1),
            infer: micros(70),
            output: micros(2),
            batch_rows,
            turn: None,
        }
    }

    /// Counts a request of so many rows.
    fn succeed(model: &ModelMetrics, rows: usize) {
        model.success(rows, Duration::from_micros(100), &timings(rows));
    }

    #[test]
    fn two_requests_of_one_batch_are_two_answers_and_one_execution() {
        let metrics = Metrics::new(MetricsSettings::default());
        let model = model(&metrics);
        assert_eq!(model.statistics(), Statistics::default());
        model.execution(&timings(5), BatchReason::Idle);
        succeed(&model, 2);
        succeed(&model, 3);
        model.failure_after(FailureReason::Backend, Duration::from_micros(7));
        model.failure(FailureReason::Rejected);
        let statistics = model.statistics();
        let total = |count, ns| Total { count, ns };
        assert_eq!((statistics.inference_count, statistics.execution_count), (5, 1));
        assert_eq!(statistics.success, total(2, 200_000));
        assert_eq!(statistics.queue, total(2, 40_000));
        assert_eq!(statistics.compute_infer, total(2, 140_000));
        assert_eq!(statistics.fail, total(2, 7_000));
        let [batch] = statistics.batches[..] else { panic!("{statistics:?}") };
        assert_eq!((batch.rows, batch.compute_infer), (5, total(1, 70_000)));
        let now = SystemTime::UNIX_EPOCH.elapsed().unwrap().as_millis() as u64;
        let age = now - statistics.last_inference_ms;
        assert!(age < 60_000, "{age} ms");
    }

    #[test]
    fn a_reload_begins_anew_while_the_old_load_still_counts_its_own() {
        let metrics = Metrics::new(MetricsSettings::default());
        let old = model(&metrics);
        succeed(&old, 1);
        let new = model(&metrics);
        assert_eq!(new.statistics(), Statistics::default());
        succeed(&old, 1);
        succeed(&new, 4);
        assert_eq!(old.statistics().inference_count, 2);
        assert_eq!(new.statistics().inference_count, 4);
    }

    #[test]
    fn models_above_the_bound_of_metrics_have_statistics_of_their_own() {
        let metrics = Metrics::new(MetricsSettings { max_models: 0, ..MetricsSettings::default() });
        let (a, b) = (model(&metrics), model(&metrics));
        succeed(&a, 1);
        assert_eq!((a.statistics().inference_count, b.statistics().inference_count), (1, 0));
    }
}
