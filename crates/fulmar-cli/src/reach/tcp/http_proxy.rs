//! An HTTP proxy that the environment names, and CONNECT through it (RFC 9110 9.3.6).

use std::io;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http_body_util::Empty;
use hyper::header::{HOST, PROXY_AUTHORIZATION};
use hyper::upgrade::Upgraded;
use hyper::{Method, Request, Uri};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;

use super::kernel::prepare;

/// Where a proxy is if its address names no port, as with curl.
const PORT_DEFAULT: u16 = 1080;

/// A proxy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Proxy {
    host: String,
    port: u16,
    /// As in the header.
    login: Option<String>,
}

impl Proxy {
    /// The one that leads to `name`, by `HTTPS_PROXY` and `NO_PROXY`; in small letters they come first.
    pub(super) fn of_environment(name: &str) -> io::Result<Option<Self>> {
        let variable = |small: &str| {
            let value = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
            value(small).or_else(|| value(&small.to_uppercase()))
        };
        let excepted = variable("no_proxy").is_some_and(|list| is_listed(name, &list));
        match variable("https_proxy").filter(|_| !excepted) {
            Some(text) => Self::parse(&text).map(Some).ok_or_else(|| {
                io::Error::new(
                    io::ErrorKind::InvalidInput,
                    format!("HTTPS_PROXY: `{text}` is not http://HOST:PORT"),
                )
            }),
            None => Ok(None),
        }
    }

    fn parse(text: &str) -> Option<Self> {
        let rest = match text.split_once("://") {
            Some(("http", rest)) => rest,
            Some(_) => return None,
            None => text,
        };
        let uri: Uri = rest.trim_end_matches('/').parse().ok()?;
        let authority = uri.authority()?;
        let login = authority.as_str().rsplit_once('@').map(|(login, _)| login.replace("%40", "@"));
        Some(Self {
            host: authority.host().trim_matches(['[', ']']).to_owned(),
            port: authority.port_u16().unwrap_or(PORT_DEFAULT),
            login: login.map(|login| format!("Basic {}", STANDARD.encode(login))),
        })
    }

    /// A stream through it.
    pub(super) async fn connect(&self, name: &str, port: u16) -> io::Result<TokioIo<Upgraded>> {
        let told =
            |what: String| io::Error::other(format!("the proxy at {}:{}: {what}", self.host, self.port));
        let stream = TcpStream::connect((self.host.as_str(), self.port)).await;
        let stream = stream.map_err(|error| told(error.to_string()))?;
        prepare(&stream);
        let authority =
            if name.contains(':') { format!("[{name}]:{port}") } else { format!("{name}:{port}") };
        let mut request = Request::builder().method(Method::CONNECT).uri(&authority).header(HOST, &authority);
        if let Some(login) = &self.login {
            request = request.header(PROXY_AUTHORIZATION, login);
        }
        let request = request.body(Empty::<Bytes>::new()).map_err(io::Error::other)?;
        let handshake = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await;
        let (mut sender, conversation) = handshake.map_err(io::Error::other)?;
        // It ends when both of its halves are gone.
        tokio::spawn(conversation.with_upgrades());
        let response = sender.send_request(request).await.map_err(|error| told(error.to_string()))?;
        if !response.status().is_success() {
            return Err(told(response.status().to_string()));
        }
        hyper::upgrade::on(response).await.map(TokioIo::new).map_err(|error| told(error.to_string()))
    }
}

/// Whether a list of names, separated by commas, has this one: itself, a domain that it is in, or all.
fn is_listed(name: &str, list: &str) -> bool {
    let name = name.to_ascii_lowercase();
    list.split(',').map(|entry| entry.trim().trim_start_matches('.').to_ascii_lowercase()).any(|entry| {
        entry == "*"
            || (!entry.is_empty()
                && name.strip_suffix(&entry).is_some_and(|head| head.is_empty() || head.ends_with('.')))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn proxies_are_written_as_for_curl() {
        let proxy = |host: &str, port, login: Option<&str>| {
            Some(Proxy { host: host.into(), port, login: login.map(Into::into) })
        };
        assert_eq!(Proxy::parse("http://proxy.example:3128/"), proxy("proxy.example", 3128, None));
        assert_eq!(Proxy::parse("10.0.0.1:8080"), proxy("10.0.0.1", 8080, None));
        assert_eq!(Proxy::parse("http://[::1]:8080"), proxy("::1", 8080, None));
        assert_eq!(Proxy::parse("proxy.example"), proxy("proxy.example", 1080, None));
        let login = Some("Basic bWU6c2VjcmV0");
        assert_eq!(Proxy::parse("http://me:secret@10.0.0.1:80"), proxy("10.0.0.1", 80, login));
        for text in ["https://proxy.example", "socks5://a:1", "", "http://", "a b"] {
            assert_eq!(Proxy::parse(text), None, "{text}");
        }
    }

    #[test]
    fn names_without_a_proxy() {
        for (name, list, is_listed_there) in [
            ("gw.example.org", "localhost, example.org", true),
            ("gw.example.org", ".Example.org", true),
            ("example.org", ".example.org", true),
            ("badexample.org", "example.org", false),
            ("10.0.0.1", "10.0.0.1", true),
            ("10.0.0.1", "*", true),
            ("a", "", false),
            ("a", ",", false),
        ] {
            assert_eq!(is_listed(name, list), is_listed_there, "{name} in {list}");
        }
    }
}
