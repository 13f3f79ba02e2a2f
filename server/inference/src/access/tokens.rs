//! Which clients may ask, by the tokens that a file lists, and the file, which may change while the server runs.

use std::{
    fs, io,
    path::{Path, PathBuf},
    sync::Arc,
};

use arc_swap::ArcSwap;

use super::{Need, Scope, Secret};
use crate::error::Error;

/// A token that can be guessed protects nothing.
const SHORTEST: usize = 16;

/// What is wrong with tokens; never a token.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TokensError {
    /// A line has another form.
    #[error(
        "line {0}: expected '<scope> <token>', the scope one of {scopes}",
        scopes = Scope::ALL.map(Scope::name).join(", ")
    )]
    Form(usize),
    /// A token that can be guessed, or that no header can have.
    #[error(
        "line {line}: expected a token of at least {SHORTEST} characters of ASCII, given {given}"
    )]
    Weak {
        /// From 1.
        line: usize,
        /// Its characters.
        given: usize,
    },
    /// The line's token is another one's already.
    #[error("line {0}: the token is in an earlier line already")]
    Twice(usize),
    /// There is none.
    #[error("expected at least one line '<scope> <token>'")]
    None,
}

/// What was expected of a text that is no token.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("characters of ASCII without blanks")]
pub struct NoToken;

/// A file of tokens that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum TokenFileError {
    /// It cannot be read.
    #[error("'{}' cannot be read: {error}", .path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// What the system said.
        error: io::Error,
    },
    /// It is not text.
    #[error("'{}' is not text in UTF-8", .path.display())]
    NotText {
        /// The file.
        path: PathBuf,
    },
    /// Its text has no tokens.
    #[error("'{}', {problem}", .path.display())]
    Tokens {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        problem: TokensError,
    },
}

/// The tokens that are known, and what each allows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tokens(Vec<(Scope, Secret)>);

impl Tokens {
    /// Reads `<scope> <token>`, one to a line; blank lines and those that begin with `#` are skipped.
    ///
    /// # Errors
    /// The line, and what is expected of it; never a token.
    pub fn parse(text: &str) -> Result<Tokens, TokensError> {
        let mut tokens: Vec<(Scope, Secret)> = Vec::new();
        for (number, line) in text.lines().enumerate() {
            let (line, at) = (line.trim(), number + 1);
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let mut words = line.split_ascii_whitespace();
            let scope =
                words.next().and_then(|name| Scope::ALL.into_iter().find(|it| it.name() == name));
            let (Some(scope), Some(token), None) = (scope, words.next(), words.next()) else {
                return Err(TokensError::Form(at));
            };
            if token.len() < SHORTEST || !token.bytes().all(|it| it.is_ascii_graphic()) {
                return Err(TokensError::Weak { line: at, given: token.chars().count() });
            }
            let secret = Secret::new(token.as_bytes());
            if tokens.iter().any(|it| it.1 == secret) {
                return Err(TokensError::Twice(at));
            }
            tokens.push((scope, secret));
        }
        match tokens.is_empty() {
            true => Err(TokensError::None),
            false => Ok(Tokens(tokens)),
        }
    }

    /// One token, which is as long as its owner has made it.
    ///
    /// # Errors
    /// What is expected of it.
    pub fn one(scope: Scope, token: &str) -> Result<Tokens, NoToken> {
        match !token.is_empty() && token.bytes().all(|it| it.is_ascii_graphic()) {
            true => Ok(Tokens(vec![(scope, Secret::new(token.as_bytes()))])),
            false => Err(NoToken),
        }
    }

    /// May a client with these headers have this? The token is that of `Authorization: Bearer <token>`, else
    /// that of `X-API-Key: <token>`.
    ///
    /// # Errors
    /// [`Error::Unauthenticated`], [`Error::Forbidden`].
    pub fn check<'a>(
        &self,
        need: Need,
        header: impl Fn(&str) -> Option<&'a [u8]>,
    ) -> Result<(), Error> {
        let given = header("authorization").and_then(bearer).or_else(|| header("x-api-key"));
        let Some(given) = given.map(<[u8]>::trim_ascii) else {
            return Err(Error::Unauthenticated(
                "a token is needed: the header 'Authorization: Bearer <token>' or 'X-API-Key: <token>'"
                    .to_owned(),
            ));
        };
        let given = Secret::new(given);
        // All are compared, whichever it is.
        let found =
            self.0.iter().fold(
                None,
                |found, (scope, secret)| {
                    if secret.is_same(&given) { Some(*scope) } else { found }
                },
            );
        match found {
            None => Err(Error::Unauthenticated("the token is not known here".to_owned())),
            Some(scope) if scope < need.scope() => Err(Error::Forbidden(format!(
                "the token's scope is '{}', and this needs '{}'",
                scope.name(),
                need.scope().name()
            ))),
            Some(_) => Ok(()),
        }
    }
}

/// The token of `Bearer <token>`, the first word in any case; `None` for another scheme, which is not ours
/// to judge.
fn bearer(value: &[u8]) -> Option<&[u8]> {
    let (scheme, rest) = value.split_at_checked(6)?;
    let blank = rest.first().is_some_and(|it| *it == b' ' || *it == b'\t');
    (scheme.eq_ignore_ascii_case(b"bearer") && blank).then_some(rest)
}

/// A file of tokens, and what was in it when it was last good.
pub struct TokenFile {
    /// None: the tokens are those that were given.
    path: Option<PathBuf>,
    tokens: ArcSwap<Tokens>,
}

impl TokenFile {
    /// Tokens that come from no file.
    pub fn of(tokens: Tokens) -> TokenFile {
        TokenFile { path: None, tokens: ArcSwap::from_pointee(tokens) }
    }

    /// Reads a file. Blocking.
    ///
    /// # Errors
    /// The path, and what is wrong with it; never a token.
    pub fn open(path: PathBuf) -> Result<TokenFile, TokenFileError> {
        let tokens = ArcSwap::from_pointee(read(&path)?);
        Ok(TokenFile { path: Some(path), tokens })
    }

    /// What is in it.
    pub fn tokens(&self) -> Arc<Tokens> {
        self.tokens.load_full()
    }

    /// Reads the file again; true when there is something new in it. Blocking.
    ///
    /// # Errors
    /// As [`TokenFile::open`]; the tokens stay what they were.
    pub fn refresh(&self) -> Result<bool, TokenFileError> {
        let Some(path) = &self.path else { return Ok(false) };
        let tokens = read(path)?;
        if tokens == **self.tokens.load() {
            return Ok(false);
        }
        self.tokens.store(Arc::new(tokens));
        Ok(true)
    }
}

fn read(path: &Path) -> Result<Tokens, TokenFileError> {
    let path = || path.to_owned();
    let text = fs::read(path()).map_err(|error| TokenFileError::Io { path: path(), error })?;
    // Its text may hold a secret: it is not shown.
    let text = String::from_utf8(text).map_err(|_| TokenFileError::NotText { path: path() })?;
    Tokens::parse(&text).map_err(|problem| TokenFileError::Tokens { path: path(), problem })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::access::Category;

    const TEXT: &str = "# who\n\ninference infer-0123456789\n  admin\tadmin-0123456789  \r\n";

    #[track_caller]
    fn check(headers: &[(&str, &str)], expect: Result<(), &str>) {
        let tokens = Tokens::parse(TEXT).unwrap();
        let header = |name: &str| headers.iter().find(|it| it.0 == name).map(|it| it.1.as_bytes());
        let outcome = tokens.check(Need::reading(Category::Inference), header);
        match (outcome, expect) {
            (Ok(()), Ok(())) => {}
            (Err(error), Err(part)) => assert!(error.to_string().contains(part), "{error}"),
            (outcome, _) => panic!("{headers:?}: {outcome:?}"),
        }
    }

    #[test]
    fn tokens_come_in_two_headers_and_schemes_in_any_case() {
        check(&[("authorization", "Bearer infer-0123456789")], Ok(()));
        check(&[("authorization", "bEARER   admin-0123456789 ")], Ok(()));
        check(&[("x-api-key", "infer-0123456789")], Ok(()));
        // A proxy's own credentials do not hide ours.
        let basic = ("authorization", "Basic dXNlcjpwYXNz");
        check(&[basic, ("x-api-key", "infer-0123456789")], Ok(()));
        check(&[basic], Err("a token is needed"));
    }

    #[test]
    fn whatever_is_not_a_token_is_refused() {
        check(&[], Err("a token is needed"));
        for value in [
            "",
            "Bearer",
            "Bearerinfer-0123456789",
            "infer-0123456789",
            "Token infer-0123456789",
            "Bearé infer-0123456789",
        ] {
            check(&[("authorization", value)], Err("a token is needed"));
        }
        for value in [
            "Bearer ",
            "Bearer infer-012345678",
            "Bearer infer-01234567890",
            "Bearer INFER-0123456789",
            "Bearer infer-0123456789 admin-0123456789",
            "Bearer inference infer-0123456789",
            "Bearer \u{0}infer-0123456789",
        ] {
            check(&[("authorization", value)], Err("not known"));
        }
        // A wrong token is not made good by another header.
        let wrong = ("authorization", "Bearer wrong-0123456789");
        check(&[wrong, ("x-api-key", "admin-0123456789")], Err("not known"));
    }

    #[test]
    fn the_error_of_a_bad_file_has_its_line_and_no_secrets() {
        for (text, part) in [
            ("", "at least one line"),
            ("# only a remark\n", "at least one line"),
            ("\nhush-0123456789abc\n", "line 2: expected '<scope> <token>'"),
            ("reader hush-0123456789abc", "one of metrics, inference, admin"),
            ("admin", "line 1"),
            ("admin hush hush-0123456789abc", "line 1"),
            ("admin hush", "at least 16 characters"),
            ("admin hush-0123456789é", "at least 16 characters of ASCII"),
            (
                "admin hush-0123456789abc\ninference hush-0123456789abc",
                "line 2: the token is in an earlier",
            ),
        ] {
            let error = Tokens::parse(text).unwrap_err().to_string();
            assert!(error.contains(part) && !error.contains("hush"), "{text}: {error}");
        }
    }

    #[test]
    fn a_file_that_goes_bad_leaves_the_tokens_that_were_good() {
        let path = std::env::temp_dir().join(format!("muster-tokens-{}", std::process::id()));
        fs::write(&path, TEXT).unwrap();
        let file = TokenFile::open(path.clone()).unwrap();
        assert!(!file.refresh().unwrap());
        fs::write(&path, "nonsense").unwrap();
        assert!(file.refresh().unwrap_err().to_string().contains("line 1"));
        assert_eq!(*file.tokens(), Tokens::parse(TEXT).unwrap());
        fs::write(&path, "admin other-0123456789").unwrap();
        assert!(file.refresh().unwrap());
        assert_eq!(file.tokens().0.len(), 1);
        fs::remove_file(&path).unwrap();
        assert!(file.refresh().unwrap_err().to_string().contains("cannot be read"));
        assert_eq!(file.tokens().0.len(), 1);
    }
}
