//! Who comes by TCP: a client that is carried, at once or in a WebSocket that it asks for, or a stranger, who
//! finds a web server without pages.
//!
//! A stranger costs a place, and has it for a bounded time, whatever he does or does not do. A client is a
//! stranger until its connection has finished the handshake inside.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use fulmar::Endpoint;
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::header::{CONTENT_TYPE, HeaderValue};
use hyper::service::service_fn;
use hyper::upgrade::Upgraded;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncWrite, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;

use super::kernel::prepare;
use super::places::{Place, Places};
use super::web_socket;
use crate::tunnel::flow::local;

/// How long a stranger may take for the handshake of TLS, then for his first byte, and a client then to be
/// let in.
const STEP_TIME_MAX: Duration = Duration::from_secs(10);

/// How long a stranger may talk.
const TALK_TIME_MAX: Duration = Duration::from_secs(30);

/// A stream of datagrams begins with a length, whose first byte is smaller; text begins with a letter.
const LETTERS_FROM: u8 = b'A';

/// What is buffered of what comes first.
const BUFFER_BYTES: usize = 4 << 10;

/// Serves all who come, until this is dropped.
pub async fn serve(listener: TcpListener, tls: TlsAcceptor, endpoint: Endpoint) {
    let places = Arc::<Places>::default();
    loop {
        let (stream, peer) = match listener.accept().await {
            Ok(accepted) => accepted,
            Err(error) => {
                local::rest(&error).await;
                continue;
            }
        };
        let Some(place) = places.enter(peer) else {
            tracing::debug!("{peer}: too many come by TCP");
            continue;
        };
        let (tls, endpoint) = (tls.clone(), endpoint.clone());
        tokio::spawn(async move { receive(stream, peer, &tls, &endpoint, place).await });
    }
}

/// One who comes.
async fn receive(stream: TcpStream, peer: SocketAddr, tls: &TlsAcceptor, endpoint: &Endpoint, place: Place) {
    prepare(&stream);
    let Ok(Ok(stream)) = tokio::time::timeout(STEP_TIME_MAX, tls.accept(stream)).await else {
        return tracing::debug!("{peer}: no TLS");
    };
    let mut stream = BufReader::with_capacity(BUFFER_BYTES, stream);
    let first = tokio::time::timeout(STEP_TIME_MAX, stream.fill_buf()).await;
    match first.ok().and_then(Result::ok).and_then(|bytes| bytes.first().copied()) {
        None => {}
        Some(first) if first < LETTERS_FROM => carry(stream, peer, endpoint, place).await,
        Some(_) => {
            let talking = tokio::time::timeout(TALK_TIME_MAX, answer(stream)).await;
            if let Some(stream) = talking.ok().flatten() {
                carry(web_socket::agreed(TokioIo::new(stream)).await, peer, endpoint, place).await;
            }
        }
    }
}

/// Carries a client's datagrams, as long as it is one.
async fn carry<S>(stream: S, peer: SocketAddr, endpoint: &Endpoint, mut place: Place)
where
    S: AsyncRead + AsyncWrite + Send + 'static,
{
    let mut carrying = match endpoint.carry(stream, peer) {
        Ok(carrying) => carrying,
        Err(error) => return tracing::debug!("{peer}: {error}"),
    };
    let known = carrying.known();
    tokio::select! {
        ended = &mut carrying => return tracing::debug!("{peer}: {ended:?}"),
        () = known => place.on_known(),
        () = tokio::time::sleep(STEP_TIME_MAX) => return tracing::debug!("{peer}: nobody we know"),
    }
    let ended = carrying.await;
    tracing::debug!("{peer}: {ended:?}");
}

/// There is nothing here, but for who asks for a WebSocket: its stream.
async fn answer<S: AsyncRead + AsyncWrite + Send + Unpin + 'static>(stream: S) -> Option<Upgraded> {
    let agreed = Mutex::new(None);
    let service = service_fn(|mut request: Request<Incoming>| {
        let response = web_socket::agree(&request).inspect(|_| {
            let on_upgrade = hyper::upgrade::on(&mut request);
            *agreed.lock().unwrap_or_else(PoisonError::into_inner) = Some(on_upgrade);
        });
        async move { Ok::<_, Infallible>(response.unwrap_or_else(nothing)) }
    });
    let _ = hyper::server::conn::http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(STEP_TIME_MAX)
        .serve_connection(TokioIo::new(stream), service)
        .with_upgrades()
        .await;
    let on_upgrade = agreed.into_inner().unwrap_or_else(PoisonError::into_inner)?;
    on_upgrade.await.ok()
}

fn nothing() -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(Bytes::from_static(b"404 Not Found\n")));
    *response.status_mut() = StatusCode::NOT_FOUND;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("text/plain"));
    response
}
