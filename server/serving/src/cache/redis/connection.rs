//! One connection to Redis.

use std::io;

use bytes::{Buf, Bytes, BytesMut};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

use crate::cache::{
    cache_settings::RedisSettings,
    redis::{
        problem::RedisError,
        wire::{END, Value, command, take},
    },
};

/// A connection that is logged in, on which no answer is outstanding.
pub(super) struct Connection {
    stream: TcpStream,
    /// What has come of an answer.
    buffer: BytesMut,
}

impl Connection {
    /// Connects, logs in, chooses the database.
    pub(super) async fn open(settings: &RedisSettings) -> Result<Connection, RedisError> {
        let address = (settings.host.as_str(), settings.port);
        let stream = TcpStream::connect(address).await.map_err(RedisError::Connect)?;
        stream.set_nodelay(true).map_err(RedisError::Connect)?;
        let mut connection = Connection { stream, buffer: BytesMut::new() };
        if let Some(password) = &settings.password {
            let password = password.reveal().as_bytes();
            match &settings.user {
                Some(user) => connection.must(&[b"AUTH", user.as_bytes(), password]).await?,
                // As versions without users take it, too.
                None => connection.must(&[b"AUTH", password]).await?,
            }
        }
        if settings.db != 0 {
            connection.must(&[b"SELECT", settings.db.to_string().as_bytes()]).await?;
        }
        Ok(connection)
    }

    async fn must(&mut self, parts: &[&[u8]]) -> Result<(), RedisError> {
        match self.ask(parts, Bytes::new()).await? {
            Value::Error(text) => Err(RedisError::Refused(text)),
            _ => Ok(()),
        }
    }

    /// Sends a command and reads its answer. `value` is its last part, where it is not empty.
    ///
    /// # Cancel safety
    /// None: a connection on which this was dropped must not be used any more.
    pub(super) async fn ask(&mut self, parts: &[&[u8]], value: Bytes) -> io::Result<Value> {
        let start = command(parts, value.len());
        match value.is_empty() {
            true => self.stream.write_all(&start).await?,
            false => self.stream.write_all_buf(&mut start.chain(value).chain(END)).await?,
        }
        loop {
            match take(&mut self.buffer) {
                Ok(Some(value)) => return Ok(value),
                Ok(None) => {}
                Err(problem) => return Err(io::Error::new(io::ErrorKind::InvalidData, problem)),
            }
            if self.stream.read_buf(&mut self.buffer).await? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
    }
}
