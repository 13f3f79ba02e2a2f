//! The ports that the server listens on.

use std::{io, net::TcpListener};

use frontend::{net, settings::Listeners};

use super::AppError;

/// Opens the ports. A service that nobody has asked for is left out where its port is taken, with a warning.
///
/// # Errors
/// Where any other port cannot be had.
pub(super) fn open(listeners: &Listeners) -> Result<Vec<(&'static str, TcpListener)>, AppError> {
    let wanted = [
        ("http", listeners.http, listeners.reuse_http_port),
        ("grpc", listeners.grpc, listeners.reuse_grpc_port),
        ("tfs-grpc", listeners.tfs_grpc, listeners.reuse_grpc_port),
        ("sagemaker", listeners.sagemaker, false),
        ("vertex-ai", listeners.vertex_ai, false),
        ("metrics", listeners.metrics, false),
    ];
    let mut open = Vec::new();
    for (service, address, reuse_port) in wanted {
        let Some(address) = address else { continue };
        match net::listen(address, reuse_port) {
            Ok(listener) => open.push((service, listener)),
            Err(error) if is_taken(&error) && listeners.spare.contains(&service) => {
                let port = address.port();
                tracing::warn!(
                    "port {port} is taken, so the server does without {service}: --{service}-port=<PORT> gives it \
                     another"
                );
            }
            Err(error) => return Err(AppError::Listen { service, address, error }),
        }
    }
    Ok(open)
}

/// The port of the first open service among these.
pub(super) fn port_of(open: &[(&'static str, TcpListener)], services: [&str; 2]) -> Option<u16> {
    let (_, listener) = open.iter().find(|(service, _)| services.contains(service))?;
    listener.local_addr().ok().map(|it| it.port())
}

fn is_taken(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::AddrInUse
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use super::*;

    fn listeners(http: SocketAddr, metrics: SocketAddr, spare: Vec<&'static str>) -> Listeners {
        Listeners {
            http: Some(http),
            sagemaker: None,
            vertex_ai: None,
            metrics: Some(metrics),
            grpc: None,
            tfs_grpc: None,
            spare,
            reuse_http_port: false,
            reuse_grpc_port: false,
            http_threads: None,
        }
    }

    #[test]
    fn the_server_does_without_a_port_that_nobody_asked_for_and_that_is_taken() {
        let other = TcpListener::bind("127.0.0.1:0").unwrap();
        let (free, taken) = (SocketAddr::from(([127, 0, 0, 1], 0)), other.local_addr().unwrap());
        let opened = open(&listeners(free, taken, vec!["metrics"])).unwrap();
        assert_eq!(opened.iter().map(|it| it.0).collect::<Vec<_>>(), ["http"]);
        for asked_for in [listeners(free, taken, vec![]), listeners(taken, free, vec!["metrics"])] {
            let error = open(&asked_for).unwrap_err().to_string();
            assert!(error.contains(&taken.to_string()), "{error}");
        }
    }
}
