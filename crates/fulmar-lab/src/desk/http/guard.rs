//! Who may ask: whoever has the token, from the program's own page or from no page at all.
//!
//! A browser sends cookies along with requests that other sites make it send, and a site may claim a name
//! that leads to this machine. So a request has to name this program by address (or a name it was told), come
//! from its own origin if it comes from any, and bring the token.

use std::net::IpAddr;
use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::header::{AUTHORIZATION, COOKIE, HOST, HeaderMap, HeaderValue, ORIGIN, SET_COOKIE};
use axum::http::{StatusCode, Uri};
use axum::middleware::Next;
use axum::response::{Html, IntoResponse, Response};
use subtle::ConstantTimeEq;

use super::serve::Known;
use crate::desk::types::Refusal;

/// Who is let in.
#[derive(Clone, Debug)]
pub(crate) struct Guard {
    /// What the printed URL holds.
    pub(crate) token: String,
    /// Cookies belong to a name, not to a port: several programs on one machine keep theirs apart.
    pub(crate) port: u16,
    /// Names beside addresses and `localhost` by which the program may be called.
    pub(crate) names: Vec<String>,
}

/// A new token.
pub(crate) fn token() -> Result<String, String> {
    let mut bytes = [0u8; 16];
    getrandom::fill(&mut bytes).map_err(|error| format!("no random numbers: {error}"))?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

const SECURITY: [(&str, &str); 4] = [
    (
        "content-security-policy",
        "default-src 'self'; img-src 'self' blob: data:; style-src 'self' 'unsafe-inline'; frame-ancestors 'none'; \
         form-action 'self'; base-uri 'none'",
    ),
    ("x-content-type-options", "nosniff"),
    ("referrer-policy", "no-referrer"),
    ("cross-origin-resource-policy", "same-origin"),
];

impl Guard {
    fn is_right(&self, given: &str) -> bool {
        given.as_bytes().ct_eq(self.token.as_bytes()).into()
    }

    fn cookie(&self) -> String {
        format!("fulmar-desk-{}", self.port)
    }

    /// Whether the request names this program.
    fn is_called(&self, host: &str) -> bool {
        let name = match host.rsplit_once(':') {
            Some((name, port)) if port.bytes().all(|digit| digit.is_ascii_digit()) => name,
            _ => host,
        };
        let bare = name.trim_start_matches('[').trim_end_matches(']');
        bare == "localhost" || bare.parse::<IpAddr>().is_ok() || self.names.iter().any(|known| known == bare)
    }

    /// Whether it is this program's own page that asks, or a program that has no origin. Links to the page
    /// may be followed from anywhere: the token decides.
    fn is_own(&self, headers: &HeaderMap, is_page: bool) -> bool {
        let text = |name: &str| headers.get(name).map(|value| value.to_str().unwrap_or_default());
        let Some(host) = text(HOST.as_str()).filter(|host| self.is_called(host)) else { return false };
        if let Some(origin) = text(ORIGIN.as_str()) {
            return origin == format!("http://{host}");
        }
        // Requests without an origin that a browser makes for another site: pictures, links.
        let is_followed = is_page && text("sec-fetch-mode") == Some("navigate");
        is_followed || !matches!(text("sec-fetch-site"), Some("cross-site" | "same-site"))
    }

    fn has_token(&self, headers: &HeaderMap) -> bool {
        let bearer =
            headers.get(AUTHORIZATION).and_then(|value| value.to_str().ok()?.strip_prefix("Bearer "));
        let cookies = headers.get_all(COOKIE).iter().filter_map(|value| value.to_str().ok());
        let pairs =
            cookies.flat_map(|cookies| cookies.split(';')).filter_map(|pair| pair.trim().split_once('='));
        let name = self.cookie();
        let mut given = pairs.filter(|(key, _)| *key == name).map(|(_, value)| value).chain(bearer);
        given.any(|given| self.is_right(given))
    }
}

fn query_token(uri: &Uri) -> Option<&str> {
    uri.query()?.split('&').find_map(|pair| pair.strip_prefix("token="))
}

/// Lets a request through, or says why not.
pub(super) async fn check(State(guard): State<Arc<Guard>>, request: Request, next: Next) -> Response {
    let is_api = request.uri().path().starts_with("/api/");
    let is_asset = !is_api && request.uri().path() != "/";
    let mut response = if !guard.is_own(request.headers(), request.uri().path() == "/") {
        Refusal::new(
            403,
            "this request comes from another site, or calls this program by a name it does not know",
        )
        .into_response()
    } else if is_asset {
        next.run(request).await
    } else if let Some(given) = query_token(request.uri()).filter(|_| !is_api) {
        if guard.is_right(given) { admitted(&guard) } else { closed() }
    } else if guard.has_token(request.headers()) {
        request.extensions().get::<Known>().into_iter().for_each(Known::show);
        next.run(request).await
    } else if is_api {
        Refusal::new(401, "the token is missing or wrong: it is in the URL that the program has printed")
            .into_response()
    } else {
        closed()
    };
    for (name, value) in SECURITY {
        response.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    response
}

/// The token goes into a cookie, and leaves the address.
fn admitted(guard: &Guard) -> Response {
    let cookie = format!("{}={}; Path=/; HttpOnly; SameSite=Strict", guard.cookie(), guard.token);
    // Not answered by a redirection: a browser that came from elsewhere would not send the new cookie along
    // with it.
    let body =
        "<!doctype html><meta http-equiv=refresh content='0;url=/'><a href='/'>the operator's desk</a>";
    (StatusCode::OK, [(SET_COOKIE, cookie)], Html(body)).into_response()
}

fn closed() -> Response {
    let body = "<!doctype html><html lang=en><meta charset=utf-8><meta name=viewport content='width=device-width'>\
        <title>Fulmar: the operator's desk</title><body style='font:16px/1.5 system-ui;max-width:34em;margin:4em auto;padding:0 1em'>\
        <h1>Not let in</h1><p>The token is missing or wrong. Open the whole URL that <code>fulmar-lab</code> has printed \
        as its first line; every start has a new one.</p></body></html>";
    (StatusCode::FORBIDDEN, Html(body)).into_response()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn guard() -> Guard {
        Guard { token: "0123".into(), port: 80, names: vec!["desk.example".into()] }
    }

    fn headers(pairs: &[(&'static str, &str)]) -> HeaderMap {
        pairs.iter().map(|(name, value)| (name.parse().unwrap(), value.parse().unwrap())).collect()
    }

    #[test]
    fn it_answers_to_addresses_and_the_names_it_was_told() {
        for host in ["127.0.0.1:80", "localhost:80", "[::1]:80", "10.1.2.3", "desk.example:80"] {
            assert!(guard().is_called(host), "{host}");
        }
        for host in ["evil.example", "127.0.0.1.evil.example:80", "", "localhost.evil.example"] {
            assert!(!guard().is_called(host), "{host}");
        }
    }

    #[test]
    fn other_sites_are_kept_out() {
        let own = |more: &[(&'static str, &str)]| {
            let mut headers = headers(&[("host", "127.0.0.1:80")]);
            headers.extend(self::headers(more));
            guard().is_own(&headers, false)
        };
        assert!(
            own(&[])
                && own(&[("origin", "http://127.0.0.1:80")])
                && own(&[("sec-fetch-site", "same-origin")])
        );
        assert!(!own(&[("origin", "http://evil.example")]) && !own(&[("origin", "null")]));
        assert!(!own(&[("origin", "http://127.0.0.1:81")]) && !own(&[("sec-fetch-site", "cross-site")]));
        let link = headers(&[
            ("host", "[::1]:80"),
            ("sec-fetch-site", "cross-site"),
            ("sec-fetch-mode", "navigate"),
        ]);
        assert!(guard().is_own(&link, true) && !guard().is_own(&link, false));
        assert!(!guard().is_own(&headers(&[]), true));
    }

    #[test]
    fn the_token_comes_as_a_cookie_or_a_header() {
        let has = |name, value| guard().has_token(&headers(&[(name, value)]));
        assert!(has("authorization", "Bearer 0123") && has("cookie", "a=b; fulmar-desk-80=0123"));
        assert!(!has("authorization", "0123") && !has("cookie", "fulmar-desk-81=0123"));
        assert!(!has("authorization", "Bearer ") && !has("cookie", "fulmar-desk-80="));
        assert!(token().unwrap() != token().unwrap() && token().unwrap().len() == 32);
    }
}
