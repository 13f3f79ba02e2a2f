//! Faults of what comes over the wire: clients that are slow, that leave, that flood, that say what is no request.

use std::{io::Write, net::Shutdown};

use frontend::grpc::proto::{ModelInferResponse, ServerLiveResponse};
use serde_json::json;
use tonic::Code;

use super::server::Gate;
use crate::{
    buffers,
    support::{
        Client, Page, Tensor, ask, first_of, grpc as client,
        grpc::identity,
        http2::{
            DATA, END_HEADERS, HEADERS, INFER, RST_STREAM, call, calls_without_window,
            endless_headers, frame, greet_at, head, open_and_reset, ping_and_set, until,
            wait_nothing_held,
        },
        infer, row,
        shared_memory::{Object, SYSTEM, part, request},
        wait_queued,
    },
};

impl Gate {
    pub fn not_numbers(&self) {
        let body = row(1).replace("1,0,0,0", "NaN,Infinity,-Infinity,-0.0");
        let reply = self.post("canary", body.as_bytes()).expect(200);
        assert!(reply.text().contains("[NaN,Infinity,-Infinity,-0"), "{}", reply.text());
    }

    pub fn slow_clients(&self) {
        let mut clients: Vec<Client> = (0..50).map(|_| self.client()).collect();
        for client in &mut clients {
            client.send("POST /v2/models/canary/infer HTTP/1.1\r\nhost:").unwrap();
        }
        for client in &mut clients {
            // Told so, or cut off.
            if let Ok(Some(reply)) = client.try_reply() {
                assert_eq!(reply.status, 408);
            }
        }
    }

    pub fn bomb(&self) {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
        encoder.write_all(&vec![b' '; 64 << 20]).unwrap();
        let bomb = encoder.finish().unwrap();
        let headers = [("content-encoding", "gzip")];
        let reply = self.client().post(&infer("canary"), &headers, bomb);
        assert_eq!(reply.status, 413, "{}", reply.text());
    }

    pub fn floods(&self) {
        open_and_reset(self.grpc);
        ping_and_set(self.grpc);
        endless_headers(self.grpc);
    }

    /// A message that is none, and one of 4 GiB, of which no more than the announcement comes.
    pub fn messages_that_are_refused(&self) {
        let mut client = client::Client::connect(self.grpc);
        let none = ServerLiveResponse { live: true };
        let answer = client.call::<_, ModelInferResponse>("ModelInfer", none);
        client::refused(answer, Code::InvalidArgument);
        let refused = || {
            let page = Page::read(self.http);
            let series = "muster_grpc_requests_total{code=\"RESOURCE_EXHAUSTED\"}";
            if page.has(series) { page.value(series) } else { 0.0 }
        };
        let before = refused();
        let mut stream = greet_at(self.grpc);
        stream.write_all(&frame(HEADERS, END_HEADERS, 1, &head(INFER))).unwrap();
        stream.write_all(&frame(DATA, 0, 1, &[0, 0xff, 0xff, 0xff, 0xff, 1, 2, 3])).unwrap();
        until(&mut stream, &[HEADERS]);
        assert_eq!(refused(), before + 1.0);
    }

    /// Calls that nobody reads, and one that is reset while it waits or runs.
    pub fn calls_that_are_given_up(&self) {
        let mut stream = greet_at(self.grpc);
        stream.write_all(&call(1, &identity("slow", &[1.0]))).unwrap();
        stream.write_all(&frame(RST_STREAM, 0, 1, &8u32.to_be_bytes())).unwrap();
        calls_without_window(self.grpc, "canary");
        wait_queued(self.http, "slow", 0);
        wait_nothing_held(self.http);
    }

    pub fn clients_that_leave(&self, model: &str, count: usize) {
        drop((0..count).map(|_| ask(self.http, model, row(1))).collect::<Vec<_>>());
        assert_eq!(first_of(&self.post(model, row(9).as_bytes())), 9.0);
    }

    pub fn other_protocols(&self) {
        for address in [self.http, self.grpc] {
            for bytes in [
                &b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"[..],
                b"PROXY TCP4 1.1.1.1 2.2.2.2 1 2\r\n",
                b"GET / HTTP/1.1\r\n\r\n",
            ] {
                let mut client = Client::connect(address);
                // An answer or none, an error or none: it ends.
                let _ = client.send(bytes);
                let _ = client.stream().shutdown(Shutdown::Write);
                let _ = client.try_reply();
            }
        }
    }

    pub fn cut_memory(&self) {
        let object = Object::new(&[0; 8192]);
        let body = json!({"key": object.key(), "offset": 0, "byte_size": 8192}).to_string();
        let at = |verb: &str| format!("{SYSTEM}/region/cut/{verb}");
        self.client().post(&at("register"), &[], body).expect(200);
        let body = request(1, &part("cut", 8176, 16), &json!({}));
        self.post("canary", body.as_bytes()).expect(200);
        let file = std::fs::OpenOptions::new().write(true).open(object.path()).unwrap();
        file.set_len(100).unwrap();
        let error = self.post("canary", body.as_bytes()).error(400);
        assert!(error.contains("region 'cut'"), "{error}");
        self.client().post(&at("unregister"), &[], "").expect(200);
    }

    /// Many requests under one name: each gets its own numbers.
    pub fn ids_that_repeat(&self) {
        let bodies = (0..32).map(|it| row(it).replacen('{', "{\"id\":\"same\",", 1));
        let mut clients: Vec<Client> = bodies.map(|it| ask(self.http, "poisoned", it)).collect();
        for (number, client) in (0u8..).zip(&mut clients) {
            let reply = client.reply();
            assert_eq!(first_of(&reply), f64::from(number));
            assert_eq!(reply.json()["id"], "same");
        }
    }

    pub fn bytes_of_others(&self) {
        // Short, as their clients take long to read JSON, and a connection may be idle for three seconds only.
        const LONGEST: usize = 3000;
        buffers::check(self.http, "bytes", 12, |byte, length| {
            let length = length.min(LONGEST);
            Tensor::new("INPUT0", "UINT8", &[1, length], vec![byte; length])
        });
    }
}
