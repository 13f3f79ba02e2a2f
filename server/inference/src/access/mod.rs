//! Which clients may do what: what a request needs, by its route, beside what it brings in its headers. Every protocol
//! asks here, before it looks at anything else of a request.

mod category;
mod forward;
mod origin;
mod origins;
mod restricted;
mod secret;
mod tokens;

use std::sync::Arc;

pub use category::{Categories, Category, Need, Scope, UnknownCategory};
pub use forward::{Forwarding, PatternError};
pub use origin::{HostNames, NoHostNames, foreign_name_text, foreign_origin, foreign_origin_text};
pub use origins::{NoOrigins, Origins};
pub use restricted::{Restriction, RestrictionError, overlap};
pub use secret::Secret;
pub use tokens::{NoToken, TokenFile, TokenFileError, Tokens, TokensError};

use crate::{error::Error, messages};

/// Where headers come from, and what a refusal is called there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wire {
    /// Headers of HTTP/1.1 requests; a header that is missing is forbidden (403).
    Http,
    /// Metadata of gRPC; a key that is missing is UNAVAILABLE, as Triton has it, and begins with
    /// `triton-grpc-protocol-`.
    Grpc,
}

impl Wire {
    /// In front of the keys of restrictions.
    fn prefix(self) -> &'static str {
        match self {
            Wire::Http => "",
            Wire::Grpc => "triton-grpc-protocol-",
        }
    }
}

/// What is asked of the requests of one protocol. By default nothing but that no page of another site changes the
/// server.
#[derive(Clone, Default)]
pub struct Access {
    /// `None`: whoever asks is answered.
    rules: Option<Arc<Rules>>,
    names: HostNames,
}

#[derive(Clone)]
struct Rules {
    wire: Wire,
    /// The clients that may ask, by their tokens; `None` for all.
    tokens: Option<Arc<TokenFile>>,
    /// What needs no token.
    open: Categories,
    /// The header of each, and the restriction.
    restrictions: Vec<(String, Restriction)>,
    /// Are these the rules for clients on other machines, which may not administrate without more ado?
    is_afar: bool,
}

impl Access {
    /// The rules of one protocol: a token for all but `open`, where there are `tokens`; the headers of
    /// `restrictions`.
    pub fn new(
        wire: Wire,
        tokens: Option<Arc<TokenFile>>,
        open: Categories,
        restrictions: &[Restriction],
    ) -> Access {
        let names = HostNames::default();
        if tokens.is_none() && restrictions.is_empty() {
            return Access { rules: None, names };
        }
        let header = |it: &Restriction| format!("{}{}", wire.prefix(), it.key);
        let restrictions = restrictions.iter().map(|it| (header(it), it.clone())).collect();
        let rules = Rules { wire, tokens, open, restrictions, is_afar: false };
        Access { rules: Some(Arc::new(rules)), names }
    }

    /// The same, of a server that pages know by these names, too.
    pub fn of_hosts(self, names: HostNames) -> Access {
        Access { names, ..self }
    }

    /// The same rules for clients on other machines: administration only with a token or the header of a restriction.
    pub fn from_afar(&self) -> Access {
        let rules = self.rules.as_deref().cloned().unwrap_or(Rules {
            wire: Wire::Http,
            tokens: None,
            open: Categories::default(),
            restrictions: Vec::new(),
            is_afar: true,
        });
        let rules = Some(Arc::new(Rules { is_afar: true, ..rules }));
        Access { rules, names: self.names.clone() }
    }

    /// May a request that needs this, and whose header of a (lower-case) name is found by `header`, be
    /// answered?
    ///
    /// # Errors
    /// [`Error::Unauthenticated`] without a token, or with one that is unknown; [`Error::Forbidden`] where it is not
    /// enough. Also for what changes the server, if a browser's page of another site asks for it, or one of a name that
    /// may lead anywhere; for a restriction that is not met, [`Error::Forbidden`] on HTTP and [`Error::Unavailable`] on
    /// gRPC.
    pub fn check<'a>(
        &self,
        need: Need,
        header: impl Fn(&str) -> Option<&'a [u8]>,
    ) -> Result<(), Error> {
        if need.is_public() {
            return Ok(());
        }
        let has_proof = match &self.rules {
            Some(rules) => rules.check(need, &header)?,
            None => false,
        };
        if !need.changes() {
            return Ok(());
        }
        let Some(origin) = header("origin") else { return Ok(()) };
        // Whatever is configured: who may ask this server is not to be decided by the pages that he looks at.
        let host = header("host");
        if let Some(origin) = foreign_origin([origin], host) {
            return Err(Error::Forbidden(foreign_origin_text(&origin, host)));
        }
        // A page that knows a token was given it.
        match has_proof || host.is_some_and(|it| self.names.lead_here(it)) {
            true => Ok(()),
            false => Err(Error::Forbidden(foreign_name_text(host))),
        }
    }
}

impl Rules {
    /// True where the request has shown a token or the header of a restriction.
    fn check<'a>(
        &self,
        need: Need,
        header: impl Fn(&str) -> Option<&'a [u8]>,
    ) -> Result<bool, Error> {
        let mut has_proof = false;
        if let Some(file) = self.tokens.as_ref().filter(|_| !self.open.contains(need.category())) {
            file.tokens().check(need, &header)?;
            has_proof = true;
        }
        for (name, restriction) in &self.restrictions {
            if !restriction.categories.contains(need.category()) {
                continue;
            }
            has_proof = true;
            if !header(name).is_some_and(|it| restriction.value.is(it)) {
                let category = need.category().name();
                let given = if header(name).is_some() { "another value" } else { "none" };
                let given = format!("given {given}; requests of the category '{category}' need it");
                return Err(match self.wire {
                    Wire::Http => {
                        Error::Forbidden(format!("{}, {given}", messages::restricted_api(name)))
                    }
                    Wire::Grpc => Error::Unavailable(format!(
                        "{}, {given}",
                        messages::restricted_protocol(name)
                    )),
                });
            }
        }
        if self.is_afar && !has_proof && need.scope() == Scope::Admin {
            let category = need.category().name();
            return Err(Error::Forbidden(format!(
                "requests of the category '{category}' that administrate are answered to clients on the same machine \
                 only; --allow-remote-administration=true, tokens (--auth-tokens-file) or a restriction of the \
                 category open them to others"
            )));
        }
        Ok(has_proof)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Kind;

    const INFER: Need = Need::reading(Category::Inference);
    const LIVE: Need = Need::reading(Category::Health);
    const LOAD: Need = Need::changing(Category::ModelRepository);

    fn restricted(texts: &[&str]) -> Vec<Restriction> {
        texts.iter().map(|it| Restriction::parse(it).unwrap()).collect()
    }

    fn tokens() -> Option<Arc<TokenFile>> {
        let text = "metrics scrape-scrape-scrape\ninference infer-infer-infer-infer\nadmin admin-admin-admin-admin\n";
        Some(Arc::new(TokenFile::of(Tokens::parse(text).unwrap())))
    }

    #[track_caller]
    fn check(access: &Access, need: Need, headers: &[(&str, &str)], expect: Option<Kind>) {
        let header = |name: &str| headers.iter().find(|it| it.0 == name).map(|it| it.1.as_bytes());
        let outcome = access.check(need, header);
        assert_eq!(outcome.err().map(|it| it.kind()), expect, "{need:?} with {headers:?}");
    }

    #[test]
    fn what_changes_the_server_is_refused_to_pages_of_other_sites_whatever_is_configured() {
        let page = ("origin", "http://elsewhere");
        let token = ("authorization", "Bearer admin-admin-admin-admin");
        let host = ("host", "here:8000");
        for access in [
            Access::default(),
            Access::default().from_afar(),
            Access::new(Wire::Http, tokens(), Categories::default(), &[]),
        ] {
            check(&access, LOAD, &[token, host, page], Some(Kind::Forbidden));
        }
        let open = Access::default();
        check(&open, LOAD, &[page], Some(Kind::Forbidden));
        let (here, own) = (("host", "127.0.0.1:8000"), ("origin", "http://127.0.0.1:8000"));
        check(&open, LOAD, &[here, own], None);
        check(&open, INFER, &[host, page], None);
    }

    #[test]
    fn a_page_of_a_name_that_may_lead_anywhere_needs_a_token() {
        let (host, own) = (("host", "here:8000"), ("origin", "http://here:8000"));
        let token = ("authorization", "Bearer admin-admin-admin-admin");
        let open = Access::default();
        check(&open, LOAD, &[host, own], Some(Kind::Forbidden));
        check(&open, INFER, &[host, own], None);
        // A program that is no browser.
        check(&open, LOAD, &[host], None);
        check(&open.of_hosts(HostNames::parse("here").unwrap()), LOAD, &[host, own], None);
        let access = Access::new(Wire::Http, tokens(), Categories::default(), &[]);
        check(&access, LOAD, &[host, own, token], None);
        let open =
            Access::new(Wire::Http, tokens(), Categories::only(&[Category::ModelRepository]), &[]);
        check(&open, LOAD, &[host, own], Some(Kind::Forbidden));
    }

    #[test]
    fn what_is_public_needs_neither_a_token_nor_the_header_of_a_restriction() {
        let all = Category::ALL.map(Category::name).join(",");
        let closed = restricted(&[&format!("{all}:x-key=hush")]);
        let access = Access::new(Wire::Http, tokens(), Categories::default(), &closed);
        for access in [access.from_afar(), access] {
            check(&access, Need::public(Category::Metadata), &[], None);
            check(&access, Need::reading(Category::Metadata), &[], Some(Kind::Unauthenticated));
        }
    }

    #[test]
    fn nothing_configured_asks_for_nothing() {
        let access = Access::new(Wire::Http, None, Categories::only(&[Category::Health]), &[]);
        assert!(access.rules.is_none());
        check(&access, LOAD, &[], None);
    }

    #[test]
    fn clients_on_other_machines_administrate_only_with_a_token_or_a_restrictions_header() {
        let traces = Need::reading(Category::Trace);
        let open = Access::default().from_afar();
        for (need, expect) in [
            (LIVE, None),
            (INFER, None),
            (LOAD, Some(Kind::Forbidden)),
            (traces, Some(Kind::Forbidden)),
        ] {
            check(&open, need, &[], expect);
        }
        let access = Access::new(Wire::Http, tokens(), Categories::default(), &[]).from_afar();
        check(&access, LOAD, &[], Some(Kind::Unauthenticated));
        check(&access, LOAD, &[("x-api-key", "admin-admin-admin-admin")], None);
        // What needs no token has shown none.
        let open = Categories::only(&[Category::ModelRepository]);
        let access = Access::new(Wire::Http, tokens(), open, &[]).from_afar();
        check(&access, LOAD, &[], Some(Kind::Forbidden));
        let rules = restricted(&["model-repository:x-key=secret"]);
        let access = Access::new(Wire::Http, None, Categories::default(), &rules).from_afar();
        check(&access, LOAD, &[("x-key", "secret")], None);
        check(&access, traces, &[("x-key", "secret")], Some(Kind::Forbidden));
    }

    #[test]
    fn a_restriction_holds_for_its_categories_only() {
        let rules = restricted(&["inference,model-repository:x-key=secret"]);
        let access = Access::new(Wire::Http, None, Categories::default(), &rules);
        check(&access, LIVE, &[], None);
        check(&access, INFER, &[], Some(Kind::Forbidden));
        check(&access, LOAD, &[("x-key", "secre")], Some(Kind::Forbidden));
        check(&access, LOAD, &[("x-key", "Secret")], Some(Kind::Forbidden));
        check(&access, LOAD, &[("x-key", "secret")], None);
    }

    #[test]
    fn on_grpc_the_key_has_a_prefix_and_the_refusal_another_name() {
        let rules = restricted(&["inference:Key=secret"]);
        let access = Access::new(Wire::Grpc, None, Categories::default(), &rules);
        check(&access, INFER, &[("key", "secret")], Some(Kind::Unavailable));
        check(&access, INFER, &[("triton-grpc-protocol-key", "secret")], None);
    }

    #[test]
    fn what_is_open_needs_no_token_and_the_rest_needs_the_right_one() {
        let access = Access::new(Wire::Http, tokens(), Categories::only(&[Category::Health]), &[]);
        let bearer = |token: &str| format!("Bearer {token}");
        check(&access, LIVE, &[], None);
        // Even with one that is wrong: probes need no token.
        check(&access, LIVE, &[("authorization", "Bearer x")], None);
        check(&access, INFER, &[], Some(Kind::Unauthenticated));
        check(&access, INFER, &[("authorization", "Bearer x")], Some(Kind::Unauthenticated));
        let scrape = bearer("scrape-scrape-scrape");
        check(&access, INFER, &[("authorization", &scrape)], Some(Kind::Forbidden));
        let infer = bearer("infer-infer-infer-infer");
        check(&access, INFER, &[("authorization", &infer)], None);
        check(&access, LOAD, &[("authorization", &infer)], Some(Kind::Forbidden));
        check(&access, LOAD, &[("x-api-key", "admin-admin-admin-admin")], None);
    }

    #[test]
    fn tokens_and_restrictions_are_both_asked_for() {
        let rules = restricted(&["inference:x-key=secret"]);
        let access = Access::new(Wire::Http, tokens(), Categories::default(), &rules);
        let token = ("x-api-key", "infer-infer-infer-infer");
        check(&access, INFER, &[("x-key", "secret")], Some(Kind::Unauthenticated));
        check(&access, INFER, &[token], Some(Kind::Forbidden));
        check(&access, INFER, &[token, ("x-key", "secret")], None);
    }

    #[test]
    fn no_refusal_repeats_what_was_given_or_expected() {
        let rules = restricted(&["inference:x-key=hidden-value"]);
        let access = Access::new(Wire::Http, tokens(), Categories::default(), &rules);
        for headers in [
            vec![("x-api-key", "given-given-given")],
            vec![("x-api-key", "infer-infer-infer-infer"), ("x-key", "given-given-given")],
            vec![("x-api-key", "scrape-scrape-scrape")],
        ] {
            let find =
                |name: &str| headers.iter().find(|it| it.0 == name).map(|it| it.1.as_bytes());
            let text = access.check(INFER, find).unwrap_err().to_string();
            for secret in ["given-given", "hidden-value", "scrape-scrape", "infer-infer"] {
                assert!(!text.contains(secret), "{text}");
            }
        }
    }
}
