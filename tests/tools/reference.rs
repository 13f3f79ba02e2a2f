//! Pages against what the program says of itself: the routes of its document, the defaults of its flags.

use std::{
    collections::{BTreeMap, BTreeSet},
    process::Command,
};

use crate::support::{Repository, Server, root};

/// The page.
const PAGE: &str = "docs/reference/routes.md";

/// The heading of the rows whose addresses are also there below a model.
const BELOW_MODELS: &str = "also below `M`";

/// Addresses of that heading that name a model themselves.
const NAMES_A_MODEL: &str = "/pipeline/{}/{}";

/// A method and an address, with `{}` for each name in it.
type Route = (String, String);

/// What a short form on the page stands for.
fn short_forms(address: &str) -> Vec<String> {
    let forms: &[&str] = match address.as_bytes() {
        [b'M', ..] => &["/v2/models/<>[/versions/<>]"],
        [b'T', ..] => &["/v1/models/<>[/versions/<>]", "/v1/models/<>/labels/<>"],
        [b'S', ..] => &["/v2/systemsharedmemory", "/v2/cudasharedmemory"],
        _ => return vec![address.to_owned()],
    };
    forms.iter().map(|it| format!("{it}{}", &address[1..])).collect()
}

/// An address with and without its parts in square brackets.
fn choices(address: &str) -> Vec<String> {
    let Some((before, rest)) = address.split_once('[') else { return vec![address.to_owned()] };
    let (inner, after) = rest.split_once(']').expect("a bracket that is closed");
    let of = |middle: &str| choices(&format!("{before}{middle}{after}"));
    [of(""), of(inner)].concat()
}

/// An address in which names are `{}`, whichever brackets they have.
fn without_names(address: &str, open: char, close: char) -> String {
    let mut parts = address.split(open);
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |all, it| all + "{}" + it.split_once(close).expect("a closed name").1)
}

/// The routes of a row of the page: ``| `GET`, `POST /a`; `GET /b` | what |``.
fn routes_of(cell: &str) -> Vec<Route> {
    let mut routes = Vec::new();
    for group in cell.split(';') {
        let mut methods: Vec<&str> = Vec::new();
        let mut is_open = false;
        for code in group.split('`').skip(1).step_by(2) {
            let (method, address) = match code.split_once(' ') {
                Some((method, address)) => (Some(method), Some(address)),
                None if code.starts_with(['/', 'M', 'T', 'S']) => (None, Some(code)),
                None => (Some(code), None),
            };
            if let Some(method) = method.filter(|it| it.chars().all(|it| it.is_ascii_uppercase())) {
                if !is_open {
                    methods.clear();
                }
                methods.push(method);
                is_open = address.is_none();
            }
            let Some(address) = address else { continue };
            for address in short_forms(address).iter().flat_map(|it| choices(it)) {
                let address = without_names(&address, '<', '>');
                routes.extend(methods.iter().map(|it| ((*it).to_owned(), address.clone())));
            }
        }
    }
    routes
}

/// All routes that the page names.
fn on_the_page() -> BTreeSet<Route> {
    let page = std::fs::read_to_string(root(PAGE)).unwrap();
    let (_, table) = page.split_once("\n## Routes\n").unwrap();
    let table = table.split("\n## ").next().unwrap();
    let mut found = BTreeSet::new();
    let mut is_below_models = false;
    for row in table.lines().filter_map(|it| it.strip_prefix("| ")) {
        if row.starts_with("**") {
            is_below_models = row.contains(BELOW_MODELS);
            continue;
        }
        let routes = routes_of(row.split(" | ").next().unwrap());
        if is_below_models {
            let names_none = routes.iter().filter(|it| it.1 != NAMES_A_MODEL);
            found.extend(names_none.flat_map(|(method, address)| {
                let address = if address == "/" { "" } else { address };
                let below = choices(&format!("/v2/models/{{}}[/versions/{{}}]{address}"));
                below.into_iter().map(move |it| (method.clone(), it))
            }));
        }
        found.extend(routes);
    }
    found
}

#[test]
fn the_page_of_routes_has_those_that_the_server_lists() {
    let server = Server::start(&Repository::identity("m", &[]), &["--aws-facade"]);
    let document = server.get("/openapi.json").expect(200).json();
    let mut listed = BTreeSet::new();
    for (address, methods) in document["paths"].as_object().unwrap() {
        // Models have operations of their own behind the routes of all.
        if address.starts_with("/v2/models/m/") || address.starts_with("/v1/models/m:") {
            continue;
        }
        let address = without_names(address, '{', '}');
        let methods = methods.as_object().unwrap().keys().map(|it| it.to_ascii_uppercase());
        listed.extend(methods.map(|it| (it, address.clone())));
    }
    let page = on_the_page();
    let lacking: Vec<&Route> = listed.difference(&page).collect();
    let invented: Vec<&Route> = page.difference(&listed).collect();
    assert!(lacking.is_empty(), "{PAGE} lacks {lacking:#?}");
    assert!(invented.is_empty(), "{PAGE} has what the server does not list: {invented:#?}");
}

#[test]
fn short_forms_of_the_page_are_written_out() {
    let check = |cell: &str, expected: &[(&str, &str)]| {
        let own = |it: &(&str, &str)| (it.0.to_owned(), it.1.to_owned());
        assert_eq!(routes_of(cell), expected.iter().map(own).collect::<Vec<_>>());
    };
    check(
        "`GET`, `POST /a/<b>`, `/c`; `PUT /d`",
        &[("GET", "/a/{}"), ("POST", "/a/{}"), ("GET", "/c"), ("POST", "/c"), ("PUT", "/d")],
    );
    check(
        "`GET S[/x]`",
        &[
            ("GET", "/v2/systemsharedmemory"),
            ("GET", "/v2/systemsharedmemory/x"),
            ("GET", "/v2/cudasharedmemory"),
            ("GET", "/v2/cudasharedmemory/x"),
        ],
    );
}

/// The default of each flag that has one that is written in square brackets.
fn defaults() -> BTreeMap<String, String> {
    let help = Command::new(env!("CARGO_BIN_EXE_muster")).arg("--help-all").output().unwrap();
    let text = String::from_utf8(help.stdout).unwrap();
    let entries = text.split("\n      --").skip(1);
    let default = |entry: &str| {
        let name = entry.split(|it: char| it != '-' && !it.is_ascii_alphanumeric()).next()?;
        let paragraph = entry.split("\n\n").next()?.trim_end();
        let (_, default) = paragraph.strip_suffix(']')?.rsplit_once('[')?;
        Some((format!("--{name}"), default.to_owned()))
    };
    entries.filter_map(default).collect()
}

#[test]
fn numbers_in_brackets_behind_a_flag_are_its_default() {
    let defaults = defaults();
    assert_eq!(defaults.get("--idle-timeout-secs").map(String::as_str), Some("75"));
    let mut compared = 0;
    for page in std::fs::read_dir(root("docs/reference")).unwrap() {
        let page = page.unwrap().path();
        let text = std::fs::read_to_string(&page).unwrap();
        let mut rest = &*text;
        while let Some((_, flag)) = rest.split_once("`--") {
            rest = flag;
            let Some((name, behind)) = flag.split_once("` (") else { break };
            let Some((said, _)) = behind.split_once([')', ';']) else { break };
            let is_name = name.chars().all(|it| it == '-' || it.is_ascii_lowercase());
            if is_name && said.starts_with(|it: char| it.is_ascii_digit()) {
                let (flag, said) = (format!("--{name}"), said.replace(' ', ""));
                assert_eq!(defaults.get(&flag), Some(&said), "{}: {flag}", page.display());
                compared += 1;
            }
        }
    }
    assert!(5 < compared, "{compared} are compared");
}
