//! One client of the local proxy that speaks HTTP/1.1: CONNECT, requests for `http://` (RFC 9110 7.6, 9.3.6;
//! RFC 9112 3.2.2), and WebSocket without CONNECT (RFC 6455), for `ws://` too.

use std::convert::Infallible;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use fulmar::RecvStream;
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::client::conn::http1::SendRequest;
use hyper::header::{self, HeaderMap, HeaderName, HeaderValue};
use hyper::service::service_fn;
use hyper::upgrade::OnUpgrade;
use hyper::{Method, Request, Response, StatusCode, Uri, Version};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt, ReadBuf};
use tokio::sync::Mutex;

use super::client::Client;
use super::login::Login;
use super::opening::Flow;
use crate::tunnel::flow::halves::TunnelSend;
use crate::tunnel::flow::local::REQUEST_TIME_MAX;
use crate::tunnel::flow::pump::pump;
use crate::tunnel::flow::tcp::Carried;
use crate::tunnel::flow::traffic::Way;
use crate::tunnel::wire::error::{Code, OpenError};
use crate::tunnel::wire::target::{Place, Target};

type Body = BoxBody<Bytes, hyper::Error>;

/// Headers that are between a client and its proxy only (RFC 9110 7.6.1).
const HOP_BY_HOP: [HeaderName; 8] = [
    header::CONNECTION,
    HeaderName::from_static("proxy-connection"),
    HeaderName::from_static("keep-alive"),
    header::PROXY_AUTHORIZATION,
    header::TE,
    header::TRAILER,
    header::TRANSFER_ENCODING,
    header::UPGRADE,
];

/// One client.
struct Visit {
    client: Client,
    login: Option<Arc<Login>>,
    /// The connection that its last request for `http://` went by, and where to.
    last: Mutex<Option<(Place, SendRequest<Incoming>)>>,
    /// A CONNECT was granted: what follows has ends of its own.
    is_carried: AtomicBool,
}

/// Serves one client to its end. A body that is cut off ends it without a shutdown, which is a reset
/// ([`Carried`]).
pub async fn serve(stream: Carried, client: Client, login: Option<Arc<Login>>) -> Result<(), hyper::Error> {
    let visit = Arc::new(Visit { client, login, last: Mutex::new(None), is_carried: AtomicBool::new(false) });
    let (kept, served) = (stream.clone(), Arc::clone(&visit));
    let service = service_fn(move |request| {
        let visit = Arc::clone(&served);
        async move { Ok::<_, Infallible>(visit.answer(request).await) }
    });
    let conversation = hyper::server::conn::http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(REQUEST_TIME_MAX)
        .preserve_header_case(true)
        // Who has asked may end its direction and wait for the answer, as netcat does.
        .half_close(true)
        .serve_connection(TokioIo::new(stream), service)
        .with_upgrades();
    conversation.await?;
    if !visit.is_carried.load(Ordering::SeqCst) {
        // All was said. (A CONNECT that was refused ends without a shutdown.) A client that is gone needs no
        // end.
        let _ = kept.end();
    }
    Ok(())
}

impl Visit {
    async fn answer(&self, request: Request<Incoming>) -> Response<Body> {
        if !self.is_let_in(request.headers()) {
            let mut response = say(StatusCode::PROXY_AUTHENTICATION_REQUIRED, "name and password, please");
            let challenge = HeaderValue::from_static("Basic realm=\"fulmar\"");
            response.headers_mut().insert(header::PROXY_AUTHENTICATE, challenge);
            return response;
        }
        let target = authority(request.uri());
        let result = if request.method() == Method::CONNECT {
            self.connect(request).await
        } else {
            self.forward(request).await
        };
        result.unwrap_or_else(|error| {
            error.log(&target);
            say(error.code.http_status(), &error.text)
        })
    }

    fn is_let_in(&self, headers: &HeaderMap) -> bool {
        let Some(login) = &self.login else { return true };
        let given = headers.get(header::PROXY_AUTHORIZATION).and_then(|value| value.to_str().ok());
        let decoded = given
            .and_then(|value| value.split_once(' '))
            .filter(|(scheme, _)| scheme.eq_ignore_ascii_case("basic"))
            .and_then(|(_, encoded)| STANDARD.decode(encoded.trim()).ok())
            .and_then(|bytes| String::from_utf8(bytes).ok());
        let pair = decoded.as_deref().and_then(|text| text.split_once(':'));
        pair.is_some_and(|(user, password)| login.is_right(user, password))
    }

    async fn connect(&self, request: Request<Incoming>) -> Result<Response<Body>, OpenError> {
        let place = place(request.uri(), None)?;
        let flow = self.client.open(&Target::Tcp(place)).await?;
        let client = self.client.clone();
        self.is_carried.store(true, Ordering::SeqCst);
        tokio::spawn(async move {
            if let Err(error) = carry(request, flow, &client).await {
                tracing::debug!("CONNECT: {error}");
            }
        });
        Ok(Response::new(empty()))
    }

    async fn forward(&self, mut request: Request<Incoming>) -> Result<Response<Body>, OpenError> {
        if !matches!(request.uri().scheme_str(), Some("http" | "ws")) {
            let text = "this is a proxy: it takes CONNECT, and requests for http:// in their absolute form";
            return Err(OpenError::new(Code::Malformed, text));
        }
        let place = place(request.uri(), Some(80))?;
        let host = HeaderValue::from_str(&authority(request.uri())).map_err(|e| malformed(&e))?;
        let path = request.uri().path_and_query().map_or("/", |path| path.as_str());
        *request.uri_mut() = path.parse::<Uri>().map_err(|e| malformed(&e))?;
        let wants_websocket = is_websocket(request.headers());
        strip(request.headers_mut());
        // A proxy speaks its own version, both ways (RFC 9110 2.5): with that of an old origin a body without
        // a length would end as its connection does.
        *request.version_mut() = Version::HTTP_11;
        // The target of the request counts, whatever the header says (RFC 9112 3.2.2).
        request.headers_mut().insert(header::HOST, host);
        if wants_websocket {
            return self.upgrade(request, &place).await;
        }

        let mut last = self.last.lock().await;
        let mut sender = match usable(last.take(), &place).await {
            Some(sender) => sender,
            None => self.dial(&place).await?,
        };
        let response = sender.send_request(request).await;
        let response = response.map_err(|e| OpenError::new(Code::Other, format!("{place}: {e}")))?;
        *last = Some((place, sender));
        let mut response = response.map(|body| body.boxed());
        strip(response.headers_mut());
        *response.version_mut() = Version::HTTP_11;
        Ok(response)
    }

    /// A request after which both sides speak WebSocket, if the origin agrees. It has a connection of its
    /// own.
    async fn upgrade(
        &self,
        mut request: Request<Incoming>,
        place: &Place,
    ) -> Result<Response<Body>, OpenError> {
        say_websocket(request.headers_mut());
        let asking = hyper::upgrade::on(&mut request);
        let mut sender = self.dial(place).await?;
        let response = sender.send_request(request).await;
        let mut response = response.map_err(|e| OpenError::new(Code::Other, format!("{place}: {e}")))?;
        strip(response.headers_mut());
        *response.version_mut() = Version::HTTP_11;
        if response.status() != StatusCode::SWITCHING_PROTOCOLS {
            return Ok(response.map(|body| body.boxed()));
        }
        say_websocket(response.headers_mut());
        let answering = hyper::upgrade::on(&mut response);
        let client = self.client.clone();
        self.is_carried.store(true, Ordering::SeqCst);
        tokio::spawn(async move {
            if let Err(error) = carry_upgraded(asking, answering, &client).await {
                tracing::debug!("WebSocket: {error}");
            }
        });
        Ok(response.map(|_| empty()))
    }

    /// A connection for requests to a place.
    async fn dial(&self, place: &Place) -> Result<SendRequest<Incoming>, OpenError> {
        let (recv, send) = self.client.open(&Target::Tcp(place.clone())).await?.into_halves();
        let stream = TokioIo::new(Counted { recv, send, client: self.client.clone() });
        let handshake =
            hyper::client::conn::http1::Builder::new().preserve_header_case(true).handshake(stream);
        let (sender, connection) = handshake.await.map_err(OpenError::lost)?;
        tokio::spawn(connection.with_upgrades());
        Ok(sender)
    }
}

/// A flow that is not carried by [`pump`], and yet counted.
struct Counted {
    recv: RecvStream,
    send: TunnelSend,
    client: Client,
}

impl AsyncRead for Counted {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        out: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = out.filled().len();
        let result = Pin::new(&mut self.recv).poll_read(cx, out);
        self.client.traffic().count(Way::Down, out.filled().len() - before);
        result
    }
}

impl AsyncWrite for Counted {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, data: &[u8]) -> Poll<io::Result<usize>> {
        let result = Pin::new(&mut self.send).poll_write(cx, data);
        if let Poll::Ready(Ok(len)) = result {
            self.client.traffic().count(Way::Up, len);
        }
        result
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.send).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.send).poll_shutdown(cx)
    }
}

/// The connection of the last request, if it goes to the same place and is still good.
async fn usable<B>(last: Option<(Place, SendRequest<B>)>, place: &Place) -> Option<SendRequest<B>> {
    let (_, mut sender) = last.filter(|(there, _)| there == place)?;
    sender.ready().await.is_ok().then_some(sender)
}

/// Carries what follows a CONNECT.
async fn carry(request: Request<Incoming>, flow: Flow, client: &Client) -> Result<(), String> {
    let upgraded = hyper::upgrade::on(request).await.map_err(|e| e.to_string())?;
    let parts = upgraded.downcast::<TokioIo<Carried>>().map_err(|_| "not a TCP connection")?;
    let (recv, mut send) = flow.into_halves();
    send.write_all(&parts.read_buf).await.map_err(|e| e.to_string())?;
    pump(parts.io.into_inner().split(), (recv, send), Way::Up, client.traffic()).await;
    Ok(())
}

/// Carries what follows an upgrade that both sides agreed on.
async fn carry_upgraded(asking: OnUpgrade, answering: OnUpgrade, client: &Client) -> Result<(), String> {
    let (near, far) = tokio::try_join!(asking, answering).map_err(|e| e.to_string())?;
    let near = near.downcast::<TokioIo<Carried>>().map_err(|_| "not a TCP connection")?;
    let far = far.downcast::<TokioIo<Counted>>().map_err(|_| "not a flow")?;
    let (reader, mut writer) = near.io.into_inner().split();
    let Counted { recv, mut send, .. } = far.io.into_inner();
    send.write_all(&near.read_buf).await.map_err(|e| e.to_string())?;
    writer.write_all(&far.read_buf).await.map_err(|e| e.to_string())?;
    pump((reader, writer), (recv, send), Way::Up, client.traffic()).await;
    Ok(())
}

/// Whether a request asks for WebSocket (RFC 6455 4.1).
fn is_websocket(headers: &HeaderMap) -> bool {
    let names = |name: HeaderName, word: &str| {
        let values = headers.get_all(name).into_iter().filter_map(|value| value.to_str().ok());
        values.flat_map(|value| value.split(',')).any(|part| part.trim().eq_ignore_ascii_case(word))
    };
    names(header::CONNECTION, "upgrade") && names(header::UPGRADE, "websocket")
}

/// Says again what is between two neighbours: it is so between the next two as well.
fn say_websocket(headers: &mut HeaderMap) {
    headers.insert(header::CONNECTION, HeaderValue::from_static("Upgrade"));
    headers.insert(header::UPGRADE, HeaderValue::from_static("websocket"));
}

/// Host and port as they were written, without the name and password of a user.
fn authority(uri: &Uri) -> String {
    let authority = uri.authority().map_or("", |authority| authority.as_str());
    authority.rsplit_once('@').map_or(authority, |(_, host)| host).to_owned()
}

/// Where a request goes.
pub fn place(uri: &Uri, port_default: Option<u16>) -> Result<Place, OpenError> {
    let missing = || OpenError::new(Code::Malformed, "the target needs a host and a port");
    let host = uri.host().ok_or_else(missing)?;
    let port = uri.port_u16().or(port_default).ok_or_else(missing)?;
    let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
    Ok(Place::new(bare, port))
}

/// Takes out what is not for the other side: the fixed list, and what `Connection` names.
pub fn strip(headers: &mut HeaderMap) {
    let named: Vec<HeaderName> = headers
        .get_all(header::CONNECTION)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .filter_map(|name| name.trim().parse().ok())
        .collect();
    for name in HOP_BY_HOP.iter().chain(&named) {
        headers.remove(name);
    }
}

fn malformed(error: &dyn std::fmt::Display) -> OpenError {
    OpenError::new(Code::Malformed, error.to_string())
}

fn say(status: StatusCode, text: &str) -> Response<Body> {
    let body = Full::new(Bytes::from(format!("fulmar: {text}\n"))).map_err(|never| match never {});
    let mut response = Response::new(body.boxed());
    *response.status_mut() = status;
    response
}

fn empty() -> Body {
    Full::new(Bytes::new()).map_err(|never| match never {}).boxed()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_of_requests() {
        let of = |uri: &str, port| place(&uri.parse().unwrap(), port);
        assert_eq!(of("example.org:443", None), Ok(Place::new("example.org", 443)));
        assert_eq!(of("[::1]:443", None), Ok(Place::new("::1", 443)));
        assert_eq!(of("http://example.org/x", Some(80)), Ok(Place::new("example.org", 80)));
        assert_eq!(of("example.org", None).unwrap_err().code, Code::Malformed);
        assert_eq!(of("/x", Some(80)).unwrap_err().code, Code::Malformed);
    }

    #[test]
    fn websocket_is_asked_for_with_both_headers() {
        let asks = |connection: &str, upgrade: &str| {
            let mut headers = HeaderMap::new();
            headers.insert("connection", HeaderValue::from_str(connection).unwrap());
            headers.insert("upgrade", HeaderValue::from_str(upgrade).unwrap());
            is_websocket(&headers)
        };
        assert!(asks("Upgrade", "websocket") && asks("keep-alive, upgrade", "WebSocket"));
        assert!(!asks("keep-alive", "websocket") && !asks("Upgrade", "h2c"));
        assert!(!is_websocket(&HeaderMap::new()));
    }

    #[test]
    fn what_is_between_client_and_proxy_stays_there() {
        let mut headers = HeaderMap::new();
        for (name, value) in [
            ("connection", "close, X-Mine"),
            ("proxy-authorization", "Basic x"),
            ("proxy-connection", "keep-alive"),
            ("x-mine", "1"),
            ("accept", "*/*"),
        ] {
            headers.insert(name, HeaderValue::from_static(value));
        }
        strip(&mut headers);
        assert_eq!(headers.keys().map(HeaderName::as_str).collect::<Vec<_>>(), ["accept"]);
    }
}
