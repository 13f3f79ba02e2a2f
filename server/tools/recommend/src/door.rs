//! `--serve`: where operations come from.

use std::{net::SocketAddr, str::FromStr};

/// Where operations come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Door {
    /// From clients at this address.
    Address(SocketAddr),
    /// From the server that has started this program.
    StandardInput,
}

impl FromStr for Door {
    type Err = String;

    fn from_str(text: &str) -> Result<Door, String> {
        match text {
            "-" => Ok(Door::StandardInput),
            _ => text.parse().map(Door::Address).map_err(|_| {
                "expected an address and a port, such as 127.0.0.1:8090, or -".to_owned()
            }),
        }
    }
}
