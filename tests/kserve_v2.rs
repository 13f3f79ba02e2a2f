//! The KServe v2 protocol over HTTP.

use crate::support::{Repository, Server};

#[test]
fn a_loaded_server_is_live_and_ready() {
    let repository = Repository::identity("copy", &[]);
    let server = Server::start(&repository, &[]);
    server.get("/v2/health/live").expect(200);
    server.get("/v2/health/ready").expect(200);
}
