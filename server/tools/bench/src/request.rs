//! One HTTP request or gRPC call, built once and then only written.

use crate::{Error, hpack};

/// The methods that a run can use. `HEAD` is not among them: its replies have no body whatever their
/// header says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Method {
    Get,
    Post,
    Put,
    Delete,
}

impl Method {
    /// As on the wire.
    pub const fn name(self) -> &'static str {
        match self {
            Method::Get => "GET",
            Method::Post => "POST",
            Method::Put => "PUT",
            Method::Delete => "DELETE",
        }
    }
}

/// A request. `Host` and `Content-Length` are added when it is sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    method: Method,
    path: String,
    headers: Vec<(String, String)>,
    body: Vec<u8>,
    /// Is it a gRPC call, over HTTP/2?
    grpc: bool,
}

impl Request {
    /// A request without headers or body.
    ///
    /// # Errors
    /// When `path` does not begin with `/` or holds a space or a control character.
    pub fn new(method: Method, path: impl Into<String>) -> Result<Request, Error> {
        let (headers, body) = (Vec::new(), Vec::new());
        Request { method, path: String::new(), headers, body, grpc: false }.to(path)
    }

    /// The same to another path.
    ///
    /// # Errors
    /// Those of [`Request::new`].
    pub fn to(mut self, path: impl Into<String>) -> Result<Request, Error> {
        self.path = path.into();
        if !self.path.starts_with('/') || self.path.bytes().any(|it| it <= b' ' || it == 0x7f) {
            return Err(Error::Request(format!(
                "path '{}': expected '/' and then characters that need no escape",
                self.path.escape_default()
            )));
        }
        Ok(self)
    }

    /// The same with one more header.
    ///
    /// # Errors
    /// When `name` is no token, or `value` holds a control character. When the header is one of the two that are added
    /// when the request is sent, or `Transfer-Encoding`, which would contradict them.
    pub fn header(mut self, name: &str, value: &str) -> Result<Request, Error> {
        let token = |it: u8| it.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&it);
        let own = ["host", "content-length", "transfer-encoding"];
        let problem = if name.is_empty() || !name.bytes().all(token) {
            "the name is not a token"
        } else if value.bytes().any(|it| it != b'\t' && (it < b' ' || it == 0x7f)) {
            "the value holds a control character"
        } else if own.iter().any(|it| name.eq_ignore_ascii_case(it)) {
            "it is set by the generator itself"
        } else {
            self.headers.push((name.to_owned(), value.to_owned()));
            return Ok(self);
        };
        Err(Error::Request(format!("header '{}': {problem}", name.escape_default())))
    }

    /// The same with this body.
    pub fn body(mut self, body: impl Into<Vec<u8>>) -> Request {
        self.body = body.into();
        self
    }

    /// The same as a unary gRPC call with this body, the prefix of its message included.
    pub(crate) fn grpc(mut self, body: Vec<u8>) -> Request {
        (self.body, self.grpc) = (body, true);
        self
    }

    /// Is it a gRPC call?
    pub fn is_grpc(&self) -> bool {
        self.grpc
    }

    /// The header block and the body of a gRPC call.
    pub(crate) fn call(&self, scheme: &str, authority: &str) -> (Vec<u8>, Vec<u8>) {
        let mut head = Vec::new();
        let own = [
            (":method", self.method.name()),
            (":scheme", scheme),
            (":path", &self.path),
            (":authority", authority),
            ("content-type", "application/grpc"),
            ("te", "trailers"),
        ];
        for (name, value) in own.into_iter().chain(self.headers()) {
            hpack::push(&mut head, &name.to_ascii_lowercase(), value);
        }
        (head, self.body.clone())
    }

    /// Bytes of its body.
    pub(crate) fn body_len(&self) -> usize {
        self.body.len()
    }

    /// Its headers, without those that are added when it is sent.
    pub(crate) fn headers(&self) -> impl Iterator<Item = (&str, &str)> {
        self.headers.iter().map(|(name, value)| (name.as_str(), value.as_str()))
    }

    /// The method.
    pub(crate) fn method(&self) -> Method {
        self.method
    }

    /// Where it goes.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// The head and the body as they are written, in one piece.
    pub(crate) fn encode(&self, authority: &str) -> Vec<u8> {
        let mut wire = Vec::with_capacity(256 + self.body.len());
        let Request { method, path, headers, body, .. } = self;
        wire.extend_from_slice(
            format!("{} {path} HTTP/1.1\r\nHost: {authority}\r\n", method.name()).as_bytes(),
        );
        for (name, value) in headers {
            wire.extend_from_slice(format!("{name}: {value}\r\n").as_bytes());
        }
        if !body.is_empty() || matches!(method, Method::Post | Method::Put) {
            wire.extend_from_slice(format!("Content-Length: {}\r\n", body.len()).as_bytes());
        }
        wire.extend_from_slice(b"\r\n");
        wire.extend_from_slice(body);
        wire
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn head_and_body_are_one_piece() {
        let request = Request::new(Method::Post, "/x?y=1").unwrap();
        let request = request.header("Content-Type", "text/csv").unwrap().body("1,2");
        assert_eq!(
            String::from_utf8(request.encode("h:80")).unwrap(),
            "POST /x?y=1 HTTP/1.1\r\nHost: h:80\r\nContent-Type: text/csv\r\nContent-Length: 3\r\n\r\n1,2"
        );
        let request = Request::new(Method::Get, "/v2").unwrap();
        assert_eq!(request.encode("h:80"), b"GET /v2 HTTP/1.1\r\nHost: h:80\r\n\r\n");
    }

    #[test]
    fn nothing_can_be_smuggled_into_the_head() {
        assert!(Request::new(Method::Get, "v2").is_err());
        assert!(Request::new(Method::Get, "/a b").is_err());
        assert!(Request::new(Method::Get, "/a\r\nX: y").is_err());
        let request = Request::new(Method::Get, "/").unwrap();
        for (name, value) in
            [("", "x"), ("a b", "x"), ("a", "x\r\nb: y"), ("content-length", "3"), ("Host", "h")]
        {
            assert!(request.clone().header(name, value).is_err(), "{name}: {value}");
        }
    }
}
