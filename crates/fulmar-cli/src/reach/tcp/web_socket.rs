//! A stream in the messages of a WebSocket (RFC 6455), inside TLS: for HTTP proxies that look into TLS, and
//! reverse proxies that end it. They see an ordinary WebSocket; who is at the other end is found out inside,
//! as without them.
//!
//! What is written leaves in binary messages of at most `MESSAGE_BYTES_MAX`. Where one ends means nothing.

use std::fmt;
use std::io;
use std::pin::Pin;
use std::str::FromStr;
use std::task::{Context, Poll, ready};

use bytes::{Buf, Bytes};
use futures_util::{Sink, Stream};
use hyper::header::{
    CONNECTION, HeaderValue, SEC_WEBSOCKET_ACCEPT, SEC_WEBSOCKET_KEY, SEC_WEBSOCKET_VERSION, UPGRADE,
};
use hyper::{HeaderMap, Method, Request, Response, StatusCode, Uri};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;
use tokio_tungstenite::tungstenite::protocol::{Role, WebSocketConfig};
use tokio_tungstenite::tungstenite::{Error, Message};

/// Of one message that is sent.
const MESSAGE_BYTES_MAX: usize = 16 << 10;

/// Of one that is taken: a stranger can make this end hold so much.
const TAKEN_BYTES_MAX: usize = 64 << 10;

/// The only port of TLS that needs no name.
const PORT_DEFAULT: u16 = 443;

/// Where a WebSocket is: `wss://HOST[:PORT][/PATH]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WebSocketUrl {
    /// The name or address, an address of IPv6 without brackets.
    pub host: String,
    /// The port.
    pub port: u16,
    path: String,
}

impl WebSocketUrl {
    /// At a server that is reached without a URL.
    pub(super) fn of_server(host: &str, port: u16) -> Self {
        Self { host: host.to_owned(), port, path: "/".into() }
    }

    fn authority(&self) -> String {
        let host = if self.host.contains(':') { format!("[{}]", self.host) } else { self.host.clone() };
        if self.port == PORT_DEFAULT { host } else { format!("{host}:{}", self.port) }
    }
}

impl FromStr for WebSocketUrl {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("`{text}` is not wss://HOST[:PORT][/PATH]");
        let uri: Uri = text.parse().map_err(|_| wrong())?;
        let authority =
            uri.authority().filter(|authority| !authority.as_str().contains('@')).ok_or_else(wrong)?;
        if uri.scheme_str() != Some("wss") || authority.host().is_empty() {
            return Err(wrong());
        }
        Ok(Self {
            host: authority.host().trim_matches(['[', ']']).to_owned(),
            port: authority.port_u16().unwrap_or(PORT_DEFAULT),
            path: uri.path_and_query().map_or("/", |path| path.as_str()).to_owned(),
        })
    }
}

impl fmt::Display for WebSocketUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "wss://{}{}", self.authority(), self.path)
    }
}

impl<'de> serde::Deserialize<'de> for WebSocketUrl {
    fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        String::deserialize(from)?.parse().map_err(serde::de::Error::custom)
    }
}

fn config() -> WebSocketConfig {
    // What is written leaves at once: whoever writes has gathered it already.
    WebSocketConfig::default()
        .write_buffer_size(0)
        .max_write_buffer_size(2 * TAKEN_BYTES_MAX)
        .max_message_size(Some(TAKEN_BYTES_MAX))
        .max_frame_size(Some(TAKEN_BYTES_MAX))
}

/// Asks whoever is at the other end of a stream for one.
pub(super) async fn ask<S>(stream: S, url: &WebSocketUrl) -> io::Result<Messages<S>>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let failed = |error: Error| match error {
        Error::Io(error) => error,
        Error::Http(response) => {
            io::Error::other(format!("{url}: no WebSocket there: {}", response.status()))
        }
        error => io::Error::other(format!("{url}: {error}")),
    };
    let asked = tokio_tungstenite::client_async_with_config(url.to_string(), stream, Some(config())).await;
    asked.map(|(socket, _)| Messages::new(socket)).map_err(failed)
}

/// The answer to somebody who asks for one; nothing if nobody does.
pub(super) fn agree<B, T: Default>(request: &Request<B>) -> Option<Response<T>> {
    let headers = request.headers();
    let is_asked = request.method() == Method::GET
        && has_word(headers, &UPGRADE, "websocket")
        && has_word(headers, &CONNECTION, "upgrade")
        && headers.get(SEC_WEBSOCKET_VERSION).is_some_and(|version| version == "13");
    let key = headers.get(SEC_WEBSOCKET_KEY).filter(|_| is_asked)?;
    let accept = HeaderValue::from_str(&derive_accept_key(key.as_bytes())).ok()?;
    let mut response = Response::new(T::default());
    *response.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
    let headers = response.headers_mut();
    headers.insert(UPGRADE, HeaderValue::from_static("websocket"));
    headers.insert(CONNECTION, HeaderValue::from_static("Upgrade"));
    headers.insert(SEC_WEBSOCKET_ACCEPT, accept);
    Some(response)
}

/// Whether a header that is a list has a word (RFC 9110 5.6.1).
fn has_word(headers: &HeaderMap, name: &hyper::header::HeaderName, word: &str) -> bool {
    let lines = headers.get_all(name).iter().filter_map(|value| value.to_str().ok());
    lines.flat_map(|line| line.split(',')).any(|entry| entry.trim().eq_ignore_ascii_case(word))
}

/// The stream of one who has been answered.
pub(super) async fn agreed<S>(stream: S) -> Messages<S>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    Messages::new(WebSocketStream::from_raw_socket(stream, Role::Server, Some(config())).await)
}

/// The bytes in its messages.
pub(super) struct Messages<S> {
    socket: WebSocketStream<S>,
    /// Of a message that has come.
    rest: Bytes,
}

impl<S> Messages<S> {
    fn new(socket: WebSocketStream<S>) -> Self {
        Self { socket, rest: Bytes::new() }
    }
}

fn as_io(error: Error) -> io::Error {
    match error {
        Error::Io(error) => error,
        Error::ConnectionClosed | Error::AlreadyClosed => io::ErrorKind::BrokenPipe.into(),
        error => io::Error::new(io::ErrorKind::InvalidData, error),
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncRead for Messages<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        out: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        loop {
            if self.rest.has_remaining() {
                let count = self.rest.remaining().min(out.remaining());
                out.put_slice(&self.rest.split_to(count));
                return Poll::Ready(Ok(()));
            }
            match ready!(Pin::new(&mut self.socket).poll_next(cx)) {
                Some(Ok(Message::Binary(bytes))) => self.rest = bytes,
                Some(Ok(Message::Text(_))) => {
                    let error = io::Error::new(io::ErrorKind::InvalidData, "no text is expected");
                    return Poll::Ready(Err(error));
                }
                // Pings are answered by the library.
                Some(Ok(_)) => {}
                Some(Err(Error::ConnectionClosed | Error::AlreadyClosed)) | None => {
                    return Poll::Ready(Ok(()));
                }
                Some(Err(error)) => return Poll::Ready(Err(as_io(error))),
            }
        }
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for Messages<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let mut socket = Pin::new(&mut self.socket);
        ready!(socket.as_mut().poll_ready(cx)).map_err(as_io)?;
        let bytes = &bytes[..bytes.len().min(MESSAGE_BYTES_MAX)];
        socket.start_send(Message::Binary(Bytes::copy_from_slice(bytes))).map_err(as_io)?;
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_flush(cx).map_err(as_io)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match ready!(Pin::new(&mut self.socket).poll_close(cx)) {
            // The other end has said goodbye as well.
            Ok(()) | Err(Error::ConnectionClosed | Error::AlreadyClosed) => Poll::Ready(Ok(())),
            Err(error) => Poll::Ready(Err(as_io(error))),
        }
    }
}

#[cfg(test)]
mod tests {
    use futures_util::SinkExt;
    use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};

    use super::*;

    #[test]
    fn urls_are_of_sockets_in_tls() {
        for (text, host, port, path) in [
            ("wss://gw.example.org", "gw.example.org", 443, "/"),
            ("wss://gw.example.org:8443/a/b?c", "gw.example.org", 8443, "/a/b?c"),
            ("wss://[2001:db8::1]/x", "2001:db8::1", 443, "/x"),
        ] {
            let url = WebSocketUrl { host: host.into(), port, path: path.into() };
            assert_eq!(text.parse(), Ok(url.clone()));
            assert_eq!(url.to_string().parse(), Ok(url));
        }
        for text in
            ["", "gw.example.org", "https://a/", "ws://a/", "wss://", "wss:///x", "wss://me@a/", "wss://a b"]
        {
            assert!(text.parse::<WebSocketUrl>().unwrap_err().contains("wss://"), "{text}");
        }
    }

    async fn pair() -> (Messages<DuplexStream>, Messages<DuplexStream>) {
        let (near, far) = tokio::io::duplex(10_000);
        let near = WebSocketStream::from_raw_socket(near, Role::Client, Some(config())).await;
        (Messages::new(near), agreed(far).await)
    }

    fn noise(len: usize) -> Vec<u8> {
        (0..len).map(|at| (at as u8).wrapping_mul(31)).collect()
    }

    #[tokio::test]
    async fn bytes_go_both_ways_however_they_are_cut_and_then_comes_the_end() {
        let (mut near, mut far) = pair().await;
        let sent = noise(300_000);
        let (there, writing) = (sent.clone(), sent.clone());
        let echo = tokio::spawn(async move {
            let mut came = vec![0; there.len()];
            far.read_exact(&mut came).await.unwrap();
            assert!(came == there, "as it was sent");
            for piece in came.chunks(777) {
                far.write_all(piece).await.unwrap();
            }
            far.shutdown().await.unwrap();
            assert_eq!(far.read(&mut [0; 9]).await.unwrap(), 0, "the other end says goodbye, too");
        });
        near.write_all(&writing).await.unwrap();
        near.flush().await.unwrap();
        let mut came = Vec::new();
        near.read_to_end(&mut came).await.unwrap();
        assert!(came == sent, "as it came");
        echo.await.unwrap();
    }

    /// Whoever has been let in as far as this is a stranger still.
    #[tokio::test]
    async fn text_long_messages_and_noise_end_it() {
        for message in [Message::text("hello"), Message::binary(noise(TAKEN_BYTES_MAX + 1))] {
            let (near, mut far) = pair().await;
            let mut socket = near.socket;
            let sending = tokio::spawn(async move { drop(socket.send(message).await) });
            assert_eq!(far.read(&mut [0; 9]).await.unwrap_err().kind(), io::ErrorKind::InvalidData);
            drop(far);
            sending.await.unwrap();
        }
        let (mut near, far) = tokio::io::duplex(10_000);
        let mut far = agreed(far).await;
        near.write_all(&noise(100)).await.unwrap();
        assert!(far.read(&mut [0; 9]).await.is_err());
    }

    #[test]
    fn only_who_asks_as_the_standard_says_is_answered() {
        // RFC 6455 1.3.
        const ASKED: [(&str, &str); 4] = [
            ("upgrade", "WebSocket"),
            ("connection", "keep-alive, Upgrade"),
            ("sec-websocket-version", "13"),
            ("sec-websocket-key", "dGhlIHNhbXBsZSBub25jZQ=="),
        ];
        let ask = |method: Method, without: &str| {
            let mut request = Request::builder().method(method);
            for (name, value) in ASKED.iter().filter(|(name, _)| *name != without) {
                request = request.header(*name, *value);
            }
            let answer = agree::<_, ()>(&request.body(()).unwrap())?;
            Some(answer.headers()[SEC_WEBSOCKET_ACCEPT].to_str().unwrap().to_owned())
        };
        assert_eq!(ask(Method::GET, "").as_deref(), Some("s3pPLMBiTxaQ9kYGzzhZRbK+xOo="));
        assert_eq!(ask(Method::POST, ""), None);
        for (name, _) in ASKED {
            assert_eq!(ask(Method::GET, name), None, "without {name}");
        }
    }
}
