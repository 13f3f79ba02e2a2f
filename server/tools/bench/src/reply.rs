//! Reads an HTTP/1.1 reply from pieces of any size: status, length, chunks, and whether the connection
//! stays open. Pure: it sees bytes, not sockets, and keeps no body.

/// More than any sensible head; a longer one is taken for something that is not HTTP.
const LONGEST_HEAD: usize = 64 * 1024;
/// The same for the size line of a chunk and for each trailer.
const LONGEST_LINE: usize = 8 * 1024;

/// What of a reply matters to a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ReplyHead {
    /// The status code.
    pub(crate) status: u16,
    /// May the connection carry another request?
    pub(crate) keep_alive: bool,
}

/// What came of a piece of input.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fed {
    /// All of it was used and the reply goes on.
    More,
    /// The reply ended after `used` bytes of the piece.
    Done { head: ReplyHead, used: usize },
}

/// The bytes are not an HTTP/1 reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Malformed;

#[derive(Debug, Clone, Copy)]
enum State {
    ReplyHead,
    Body { left: u64 },
    ChunkSize,
    ChunkData { left: u64 },
    ChunkEnd,
    Trailer,
    UntilClose,
}

/// How the head says that its body ends.
enum Framing {
    Length(u64),
    Chunked,
    UntilClose,
    /// An interim reply (1xx): the real one follows.
    Interim,
}

/// The reader of one connection's replies, one after the other.
#[derive(Debug)]
pub(crate) struct Parser {
    state: State,
    head: ReplyHead,
    /// The part of a head or of a line that has come so far. Empty unless a piece ended inside one;
    /// bounded by the two constants, beyond which the reply is malformed.
    partial: Vec<u8>,
    /// What a reply with another status than 2xx says that it is; empty of all others.
    content_type: String,
}

impl Parser {
    /// At the beginning of a reply.
    pub(crate) fn new() -> Parser {
        let head = ReplyHead { status: 0, keep_alive: false };
        Parser { state: State::ReplyHead, head, partial: Vec::new(), content_type: String::new() }
    }

    /// The content type of the last reply, where its status was not 2xx.
    pub(crate) fn content_type(&self) -> &str {
        &self.content_type
    }

    /// Takes a piece of the stream and hands the parts of the body in it to `body`.
    pub(crate) fn feed(
        &mut self,
        input: &[u8],
        body: &mut impl FnMut(&[u8]),
    ) -> Result<Fed, Malformed> {
        let mut rest = input;
        while !rest.is_empty() {
            let ended = match self.state {
                State::ReplyHead => self.take_head(&mut rest)?,
                State::Body { left } => match take(&mut rest, left, body) {
                    0 => true,
                    left => {
                        self.state = State::Body { left };
                        false
                    }
                },
                State::ChunkData { left } => {
                    self.state = match take(&mut rest, left, body) {
                        0 => State::ChunkEnd,
                        left => State::ChunkData { left },
                    };
                    false
                }
                State::ChunkSize | State::ChunkEnd | State::Trailer => self.take_line(&mut rest)?,
                State::UntilClose => {
                    body(rest);
                    rest = &[];
                    false
                }
            };
            if ended {
                return Ok(Fed::Done { head: self.finish(), used: input.len() - rest.len() });
            }
        }
        Ok(Fed::More)
    }

    /// The stream has ended: is that a complete reply?
    pub(crate) fn end_of_stream(&mut self) -> Option<ReplyHead> {
        matches!(self.state, State::UntilClose).then(|| self.finish())
    }

    /// Forgets a reply that was given up.
    pub(crate) fn reset(&mut self) {
        self.state = State::ReplyHead;
        self.partial.clear();
    }

    fn finish(&mut self) -> ReplyHead {
        self.reset();
        self.head
    }

    /// Reads as much of the head as there is; true where the reply ends with it.
    fn take_head(&mut self, rest: &mut &[u8]) -> Result<bool, Malformed> {
        let parsed = if self.partial.is_empty() {
            parse_head(rest)?
        } else {
            self.partial.extend_from_slice(rest);
            parse_head(&self.partial)?
        };
        let Some((head, framing, used)) = parsed else {
            if self.partial.is_empty() {
                self.partial.extend_from_slice(rest);
            }
            *rest = &[];
            return if self.partial.len() > LONGEST_HEAD { Err(Malformed) } else { Ok(false) };
        };
        if !(100..300).contains(&head.status) {
            let whole = if self.partial.is_empty() { &**rest } else { &self.partial };
            self.content_type = content_type(whole.get(..used).unwrap_or_default());
        }
        // Of a head that came in pieces, only its last part lies in `rest`.
        let total = if self.partial.is_empty() { rest.len() } else { self.partial.len() };
        *rest = rest.get(rest.len().saturating_sub(total - used)..).unwrap_or_default();
        self.partial.clear();
        self.head = head;
        self.state = match framing {
            Framing::Interim => State::ReplyHead,
            Framing::Length(0) => return Ok(true),
            Framing::Length(left) => State::Body { left },
            Framing::Chunked => State::ChunkSize,
            Framing::UntilClose => State::UntilClose,
        };
        Ok(false)
    }

    /// Reads one line of the chunked coding; true where it ends the reply.
    fn take_line(&mut self, rest: &mut &[u8]) -> Result<bool, Malformed> {
        let Some(end) = rest.iter().position(|&it| it == b'\n') else {
            self.partial.extend_from_slice(rest);
            *rest = &[];
            return if self.partial.len() > LONGEST_LINE { Err(Malformed) } else { Ok(false) };
        };
        let (line, after) = rest.split_at(end);
        self.partial.extend_from_slice(line);
        *rest = after.get(1..).unwrap_or_default();
        let line = self.partial.strip_suffix(b"\r").unwrap_or(&self.partial);
        let (next, ended) = match self.state {
            State::ChunkSize => match chunk_size(line).ok_or(Malformed)? {
                0 => (State::Trailer, false),
                left => (State::ChunkData { left }, false),
            },
            State::ChunkEnd if line.is_empty() => (State::ChunkSize, false),
            State::Trailer => (State::Trailer, line.is_empty()),
            _ => return Err(Malformed),
        };
        self.state = next;
        self.partial.clear();
        Ok(ended)
    }
}

/// Hands at most `left` bytes to `body`; what is left after that.
fn take(rest: &mut &[u8], left: u64, body: &mut impl FnMut(&[u8])) -> u64 {
    let now = usize::try_from(left).unwrap_or(usize::MAX).min(rest.len());
    let (data, after) = rest.split_at(now);
    body(data);
    *rest = after;
    left - now as u64
}

/// The head at the beginning of `bytes` and its length; `None` where it is not complete.
fn parse_head(bytes: &[u8]) -> Result<Option<(ReplyHead, Framing, usize)>, Malformed> {
    let mut lines = bytes.split_inclusive(|&it| it == b'\n');
    let Some(first) = lines.next() else { return Ok(None) };
    let Some(line) = whole(first) else { return Ok(None) };
    let (status, mut keep_alive) = parse_status(line).ok_or(Malformed)?;
    let mut used = first.len();
    let mut length = None;
    let mut chunked = false;
    for raw in lines {
        let Some(line) = whole(raw) else { return Ok(None) };
        used += raw.len();
        if line.is_empty() {
            let framing = match (status, chunked, length) {
                (100..=199, ..) => Framing::Interim,
                (204 | 304, ..) => Framing::Length(0),
                (_, true, _) => Framing::Chunked,
                (_, false, Some(length)) => Framing::Length(length),
                (_, false, None) => Framing::UntilClose,
            };
            keep_alive &= !matches!(framing, Framing::UntilClose);
            return Ok(Some((ReplyHead { status, keep_alive }, framing, used)));
        }
        // Only three headers matter; their first letters tell most others apart at no cost.
        if !matches!(line.first(), Some(b'c' | b'C' | b't' | b'T')) {
            continue;
        }
        let Some((name, value)) = split_header(line) else { return Err(Malformed) };
        if name.eq_ignore_ascii_case(b"content-length") {
            length = Some(decimal(value).ok_or(Malformed)?);
        } else if name.eq_ignore_ascii_case(b"transfer-encoding") {
            chunked = has_token(value, b"chunked");
        } else if name.eq_ignore_ascii_case(b"connection") {
            keep_alive =
                !has_token(value, b"close") && (keep_alive || has_token(value, b"keep-alive"));
        }
    }
    Ok(None)
}

/// The content type that a head says; empty where it says none.
fn content_type(head: &[u8]) -> String {
    let headers = head.split(|it| *it == b'\n').skip(1).filter_map(split_header);
    let mut types = headers.filter(|it| it.0.eq_ignore_ascii_case(b"content-type"));
    let text = types.next().map_or(&b""[..], |it| it.1);
    String::from_utf8_lossy(text).into_owned()
}

/// The line without its end; `None` where the end has not come yet.
fn whole(raw: &[u8]) -> Option<&[u8]> {
    let line = raw.strip_suffix(b"\n")?;
    Some(line.strip_suffix(b"\r").unwrap_or(line))
}

/// The status, and whether that version of HTTP keeps connections open by itself.
fn parse_status(line: &[u8]) -> Option<(u16, bool)> {
    let (version, code) = line.strip_prefix(b"HTTP/1.")?.split_first()?;
    let code = code.strip_prefix(b" ")?.get(..3)?;
    let status = decimal(code).filter(|it| (100..1000).contains(it))?;
    Some((u16::try_from(status).ok()?, *version != b'0'))
}

fn split_header(line: &[u8]) -> Option<(&[u8], &[u8])> {
    let colon = line.iter().position(|&it| it == b':')?;
    Some((line.get(..colon)?, line.get(colon + 1..)?.trim_ascii()))
}

fn decimal(text: &[u8]) -> Option<u64> {
    if text.is_empty() {
        return None;
    }
    text.iter().try_fold(0u64, |value, digit| {
        let digit = digit.is_ascii_digit().then(|| u64::from(digit - b'0'))?;
        value.checked_mul(10)?.checked_add(digit)
    })
}

/// The size of a chunk; extensions after `;` are ignored.
fn chunk_size(line: &[u8]) -> Option<u64> {
    let digits = line.split(|&it| it == b';').next()?.trim_ascii();
    let digits = std::str::from_utf8(digits).ok().filter(|it| !it.starts_with('+'))?;
    u64::from_str_radix(digits, 16).ok()
}

fn has_token(value: &[u8], token: &[u8]) -> bool {
    value.split(|&it| it == b',').any(|it| it.trim_ascii().eq_ignore_ascii_case(token))
}

#[cfg(test)]
mod tests;
