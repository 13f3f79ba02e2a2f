//! What a client may do and take, and what clients and models do wrong.
// The lint knows test functions, not the functions they share.
#![allow(clippy::unwrap_used)]
// What only tests of something that was left out of this build use.
#![cfg_attr(
    not(all(
        feature = "isolation",
        feature = "pipelines",
        feature = "pytorch",
        feature = "stores",
        feature = "tensorflow",
        feature = "trees"
    )),
    allow(dead_code, unused_imports)
)]

use test_support as support; // start a server, talk to it, make model repositories

mod access; // tokens, restricted categories, forwarded headers
mod amplification; // what one client costs all others
mod bad_input; // whatever is wrong is refused by name, and harms nobody else
mod buffers; // bytes of one request are in no answer to another
mod cancellation; // clients that leave
#[cfg(feature = "pipelines")]
mod every_byte; // sizes drawn at random in all protocols, in a server with little memory
mod every_reply; // the name and the times that all replies carry
mod expansion; // what small bodies become, counted before it is there
mod faults; // what clients and models do wrong
mod foreign_pages; // what browsers ask for pages of other sites
#[cfg(all(feature = "isolation", feature = "pytorch", feature = "tensorflow"))]
mod gate; // the faults of docs/contributing/reliability.md, one after the other against one server
mod giving_way; // where there is no room for more, the slowest gives way
mod large_blocks; // tensors that no memory stands behind
mod limits; // what one client may take
#[cfg(feature = "pipelines")]
mod run_room; // what runs take beside their bodies, and what they leave
mod storms;
mod tls; // encryption, certificates of clients, renewed files // clients that come again and again, memory that is nearly used up
