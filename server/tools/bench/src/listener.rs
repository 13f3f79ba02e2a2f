//! Which process of this machine listens at an address, as `/proc` tells.

use std::{
    collections::HashSet,
    fs,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
    path::Path,
};

use crate::usage::parent;

/// `TCP_LISTEN` in the kernel's tables.
const LISTENS: &str = "0A";
/// Programs that listen for a server which is elsewhere.
const FORWARDERS: [&str; 8] = [
    "docker-proxy",
    "rootlessport",
    "rootlesskit",
    "slirp4netns",
    "pasta",
    "ssh",
    "kubectl",
    "socat",
];
/// A program that keeps the socket of each server that it starts for the first connection.
const ACTIVATOR: &str = "systemd";

/// A process that has a socket open.
struct Holder {
    process: u32,
    parent: Option<u32>,
    name: String,
}

/// The process that listens at a loopback address; of several that share it the one that has started the others. `None`
/// where that is not one process, it only forwards, or this one may not look at it.
pub(crate) fn listening(address: SocketAddr) -> Option<u32> {
    if !address.ip().is_loopback() {
        return None;
    }
    let tables = ["/proc/net/tcp", "/proc/net/tcp6"];
    let texts = tables.map(|it| fs::read_to_string(it).unwrap_or_default());
    let sockets: HashSet<String> = texts.iter().flat_map(|it| sockets(it, address)).collect();
    let links: HashSet<String> = sockets.iter().map(|it| format!("socket:[{it}]")).collect();
    let holder = |process: u32| {
        let name = fs::read_to_string(format!("/proc/{process}/comm")).unwrap_or_default();
        Holder { process, parent: parent(process), name: name.trim().to_owned() }
    };
    server(processes().filter(|it| holds(*it, &links)).map(holder).collect())
}

/// Which of these is the server?
fn server(mut holders: Vec<Holder>) -> Option<u32> {
    holders.retain(|it| it.name != ACTIVATOR);
    let is_among = |parent: u32| holders.iter().any(|it| it.process == parent);
    let mut first = holders.iter().filter(|it| it.parent.is_none_or(|it| !is_among(it)));
    let (found, other) = (first.next()?, first.next());
    (other.is_none() && !FORWARDERS.contains(&found.name.as_str())).then_some(found.process)
}

/// The sockets of a kernel's table that listen at an address, or at all addresses with its port.
fn sockets(table: &str, wanted: SocketAddr) -> Vec<String> {
    let listens = |line: &str| {
        let mut fields = line.split_ascii_whitespace().skip(1);
        let address = address(fields.next()?)?;
        let state = fields.nth(1)?;
        let socket = fields.nth(5)?;
        let is_there = address.ip() == wanted.ip() || address.ip().is_unspecified();
        (state == LISTENS && is_there && address.port() == wanted.port()).then(|| socket.to_owned())
    };
    table.lines().skip(1).filter_map(listens).collect()
}

/// An address of the table: 32 bits at a time, each as this machine's memory holds them, and a port.
fn address(text: &str) -> Option<SocketAddr> {
    let (ip, port) = text.split_once(':')?;
    let port = u16::from_str_radix(port, 16).ok()?;
    let word = |at: usize| {
        let digits = ip.get(at * 8..at * 8 + 8)?;
        u32::from_str_radix(digits, 16).ok().map(u32::to_ne_bytes)
    };
    let ip = match ip.len() {
        8 => IpAddr::V4(Ipv4Addr::from(word(0)?)),
        32 => {
            let bytes: Vec<u8> = [word(0)?, word(1)?, word(2)?, word(3)?].concat();
            IpAddr::V6(Ipv6Addr::from(<[u8; 16]>::try_from(bytes).ok()?)).to_canonical()
        }
        _ => return None,
    };
    Some(SocketAddr::new(ip, port))
}

fn processes() -> impl Iterator<Item = u32> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|it| it.file_name().to_str()?.parse().ok())
}

/// Has a process one of these open? Not, where this one may not look.
fn holds(process: u32, links: &HashSet<String>) -> bool {
    let folder = format!("/proc/{process}/fd");
    let open = fs::read_dir(Path::new(&folder)).into_iter().flatten().flatten();
    let mut open = open.filter_map(|it| fs::read_link(it.path()).ok());
    open.any(|it| it.to_str().is_some_and(|it| links.contains(it)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    /// Does nobody listen there, in a moment at the latest? A process that another test is starting has this one's
    /// sockets until it is another program.
    fn is_soon_free(at: SocketAddr) -> bool {
        (0..1000).any(|_| {
            let is_free = listening(at).is_none();
            is_free || {
                std::thread::sleep(std::time::Duration::from_millis(10));
                false
            }
        })
    }

    #[test]
    fn the_process_that_listens_is_found_and_no_other() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let at = listener.local_addr().unwrap();
        assert_eq!(listening(at), Some(std::process::id()));
        // The same port of another address.
        let other = SocketAddr::new(IpAddr::V4(Ipv4Addr::new(127, 0, 0, 9)), at.port());
        assert_eq!(listening(other), None);
        let everywhere = TcpListener::bind("0.0.0.0:0").unwrap().local_addr().unwrap().port();
        // It is closed by now.
        assert!(is_soon_free(SocketAddr::from(([127, 0, 0, 1], everywhere))));
        assert_eq!(listening(SocketAddr::from(([10, 1, 2, 3], at.port()))), None);
        drop(listener);
        assert!(is_soon_free(at));
    }

    #[test]
    fn the_server_is_neither_who_keeps_its_socket_nor_who_forwards_to_it() {
        let found = |holders: &[(u32, u32, &str)]| {
            let holder = |&(process, parent, name): &(u32, u32, &str)| Holder {
                process,
                parent: Some(parent),
                name: name.to_owned(),
            };
            server(holders.iter().map(holder).collect())
        };
        assert_eq!(found(&[(1, 0, "systemd"), (70, 1, "muster")]), Some(70));
        assert_eq!(found(&[(1, 0, "systemd")]), None);
        // The first process of a container is the server.
        assert_eq!(found(&[(1, 0, "gunicorn"), (7, 1, "gunicorn"), (8, 1, "gunicorn")]), Some(1));
        assert_eq!(found(&[(7, 1, "muster"), (8, 1, "muster")]), None);
        assert_eq!(found(&[(7, 1, "rootlesskit")]), None);
    }

    #[test]
    fn lines_of_the_kernel_are_taken_apart() {
        let head = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n";
        let line = |address: &str, state: &str, socket: &str| {
            format!(
                "   0: {address} 00000000:0000 {state} 00000000:00000000 00:00000000 00000000     0        \
                 0 {socket} 1 f 100 0 0 10 0\n"
            )
        };
        let table = [
            head.to_owned(),
            line("0100007F:1F90", "0A", "11"),
            line("00000000:1F90", "0A", "12"),
            // Other states, ports and addresses.
            line("0100007F:1F90", "01", "13"),
            line("0100007F:1F91", "0A", "14"),
            line("0200007F:1F90", "0A", "15"),
            "cut".to_owned(),
        ]
        .concat();
        let at = |text: &str| sockets(&table, text.parse().unwrap());
        if cfg!(target_endian = "little") {
            assert_eq!(at("127.0.0.1:8080"), ["11", "12"]);
            assert_eq!(at("127.0.0.2:8080"), ["12", "15"]);
            let table = [
                head.to_owned(),
                line("00000000000000000000000001000000:1F90", "0A", "21"),
                line("0000000000000000FFFF00000100007F:1F90", "0A", "22"),
                line("00000000000000000000000000000000:1F90", "0A", "23"),
            ]
            .concat();
            assert_eq!(sockets(&table, "[::1]:8080".parse().unwrap()), ["21", "23"]);
            assert_eq!(sockets(&table, "127.0.0.1:8080".parse().unwrap()), ["22", "23"]);
        }
    }
}
