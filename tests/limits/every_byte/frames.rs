//! The bytes of HTTP/2 and of WebSocket that the test sends: no client's library would send half of a frame.

/// What opens a connection of HTTP/2.
pub fn preface() -> Vec<u8> {
    [b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".as_slice(), &frame(4, 0, 0, &[])].concat()
}

/// A frame of HTTP/2.
pub fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = (payload.len() as u32).to_be_bytes();
    [&length[1..], &[kind, flags], &stream.to_be_bytes(), payload].concat()
}

/// The start of a call, with metadata of about so many bytes.
pub fn call(stream: u32, method: &str, metadata: usize) -> Vec<u8> {
    let path = format!("/inference.GRPCInferenceService/{method}");
    let long = "a".repeat(800);
    let mut fields = vec![
        (":method", "POST"),
        (":scheme", "http"),
        (":path", &path),
        (":authority", "localhost"),
        ("content-type", "application/grpc"),
        ("te", "trailers"),
    ];
    let names: Vec<String> = (0..metadata / 800).map(|it| format!("x-{it}")).collect();
    fields.extend(names.iter().map(|it| (it.as_str(), long.as_str())));
    // Each is a literal with a new name, which is never indexed.
    let literal = |(name, value): (&str, &str)| {
        let parts = [vec![0x10], text(name), text(value)];
        parts.concat()
    };
    let block: Vec<u8> = fields.into_iter().flat_map(literal).collect();
    frame(1, 4, stream, &block)
}

/// A text of HPACK, as it is.
fn text(text: &str) -> Vec<u8> {
    let mut length = text.len();
    let mut bytes = Vec::new();
    if length < 127 {
        bytes.push(length as u8);
    } else {
        bytes.push(127);
        length -= 127;
        while 128 <= length {
            bytes.push((length % 128) as u8 | 0x80);
            length /= 128;
        }
        bytes.push(length as u8);
    }
    bytes.extend(text.as_bytes());
    bytes
}

/// The prefix of a message of gRPC.
pub fn prefix(length: usize) -> [u8; 5] {
    let [a, b, c, d] = (length as u32).to_be_bytes();
    [0, a, b, c, d]
}

/// The start of a client's frame of WebSocket: text of so many bytes, under a mask that changes nothing.
pub fn socket_frame(length: usize) -> Vec<u8> {
    [&[0x81, 0xff], (length as u64).to_be_bytes().as_slice(), &[0; 4]].concat()
}
