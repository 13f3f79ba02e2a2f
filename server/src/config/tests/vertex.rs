//! Facts about settings of the port of Vertex AI.

use super::*;

#[test]
fn vertex_ai_gets_its_port_and_that_of_metrics_and_others_where_they_are_asked_for() {
    let platform = [
        "AIP_MODE=PREDICTION",
        "AIP_HTTP_PORT=9090",
        "AIP_PREDICT_ROUTE=/predict",
        "AIP_HEALTH_ROUTE=/health",
    ];
    let it = config("--vertex-ai-default-model m", &platform);
    let port = |address: Option<std::net::SocketAddr>| address.map(|it| it.port());
    let listeners = &it.listeners;
    assert_eq!(port(listeners.vertex_ai), Some(9090));
    assert_eq!((port(listeners.http), port(listeners.sagemaker)), (None, None));
    assert_eq!(port(listeners.metrics), Some(8002));
    let routes = it.vertex_ai.unwrap();
    assert_eq!((&*routes.predict_route, &*routes.health_route), ("/predict", "/health"));
    assert_eq!(routes.default_model.as_deref(), Some("m"));
    let it = config("--http-port 8000 --allow-sagemaker=true", &platform);
    assert_eq!((port(it.listeners.http), port(it.listeners.sagemaker)), (Some(8000), Some(8080)));
    // The platform's other modes, and its variables where the port is off.
    let it = config("--allow-vertex-ai=false", &platform);
    assert!(it.vertex_ai.is_none() && it.listeners.vertex_ai.is_none());
    assert_eq!(port(it.listeners.http), Some(8000));
}

#[test]
fn vertex_ai_needs_both_routes_and_a_port_of_its_own() {
    let problems = |args: &str| problems(args, &[]);
    let given = "--allow-vertex-ai=true --vertex-ai-predict-route /p --vertex-ai-health-route";
    assert_eq!(problems("--allow-vertex-ai=true").len(), 2);
    let wrong = problems(&format!("{given} health"));
    assert!(wrong[0].contains("expected an address such as /predict"), "{wrong:?}");
    let taken = problems(&format!("{given} /h --vertex-ai-port 8002"));
    assert!(taken[0].contains("both on port 8002"), "{taken:?}");
}
