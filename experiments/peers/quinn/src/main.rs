//! QUIC by the `quinn` crate: one stream, as much as goes for so many seconds.
//!
//! `quinn-peer certificate DIR` once; then `quinn-peer server DIR SECONDS` and
//! `quinn-peer client DIR HOST SECONDS cubic|bbr|newreno`. The server prints, again and again, a line of JSON:
//! bytes so far, and the goodput within SECONDS of the first.
//!
//! Configuration: quinn's own, but for windows (64 MiB, so that they are never what limits a run), datagrams
//! of up to 1472 bytes as the links carry them, and the congestion control, which quinn offers as `cubic`
//! (its default), `bbr` (an experimental BBRv1) and `newreno`.

use std::error::Error;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use quinn::{ClientConfig, Endpoint, MtuDiscoveryConfig, ServerConfig, TransportConfig, VarInt, congestion};
use tokio::time::{Instant, sleep, sleep_until, timeout_at};

type Result<T> = std::result::Result<T, Box<dyn Error>>;

const NAME: &str = "lab";
const PORT: u16 = 4433;
const WINDOW_BYTES: u32 = 64 << 20;
/// Largest UDP payload in an IP packet of 1500 bytes.
const DATAGRAM_BYTES_MAX: u16 = 1472;
/// What is under way at the end may still arrive, so that bytes sent and bytes delivered can be compared.
const DRAIN: Duration = Duration::from_millis(300);
/// From one report of the server to the next.
const TELL_INTERVAL: Duration = Duration::from_millis(100);

#[tokio::main]
async fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match words[..] {
        ["certificate", folder] => certificate(Path::new(folder)),
        ["server", folder, seconds] => serve(Path::new(folder), seconds.parse()?).await,
        ["client", folder, host, seconds, congestion] => {
            send(Path::new(folder), SocketAddr::new(host.parse()?, PORT), seconds.parse()?, congestion).await
        }
        _ => Err("certificate DIR | server DIR SECONDS | client DIR HOST SECONDS CONGESTION".into()),
    }
}

fn certificate(folder: &Path) -> Result<()> {
    let own = rcgen::generate_simple_self_signed([NAME.to_owned()])?;
    std::fs::write(folder.join("certificate.der"), own.cert.der())?;
    Ok(std::fs::write(folder.join("key.der"), own.signing_key.serialize_der())?)
}

fn transport(congestion: &str) -> Result<Arc<TransportConfig>> {
    let mut transport = TransportConfig::default();
    let mut mtu = MtuDiscoveryConfig::default();
    mtu.upper_bound(DATAGRAM_BYTES_MAX);
    transport
        .stream_receive_window(VarInt::from_u32(WINDOW_BYTES))
        .receive_window(VarInt::from_u32(WINDOW_BYTES))
        .send_window(WINDOW_BYTES.into())
        .mtu_discovery_config(Some(mtu));
    let factory: Arc<dyn congestion::ControllerFactory + Send + Sync> = match congestion {
        "cubic" => Arc::new(congestion::CubicConfig::default()),
        "bbr" => Arc::new(congestion::BbrConfig::default()),
        "newreno" => Arc::new(congestion::NewRenoConfig::default()),
        _ => return Err(format!("quinn has no congestion control '{congestion}'").into()),
    };
    transport.congestion_controller_factory(factory);
    Ok(Arc::new(transport))
}

async fn serve(folder: &Path, seconds: f64) -> Result<()> {
    let certificate = std::fs::read(folder.join("certificate.der"))?.into();
    let key = rustls::pki_types::PrivatePkcs8KeyDer::from(std::fs::read(folder.join("key.der"))?);
    let mut config = ServerConfig::with_single_cert(vec![certificate], key.into())?;
    config.transport_config(transport("cubic")?);
    let endpoint = Endpoint::server(config, SocketAddr::from(([0, 0, 0, 0], PORT)))?;
    let connection = endpoint.accept().await.ok_or("the endpoint is closed")?.await?;
    let mut stream = connection.accept_uni().await?;
    let Some(first) = stream.read_chunk(usize::MAX, true).await? else { return Err("an empty stream".into()) };
    let (began, mut bytes) = (Instant::now(), first.bytes.len());
    let (end, mut counted, mut tell_at) = (began + Duration::from_secs_f64(seconds), bytes, began);
    // Goes on until this program is ended: a connection that breaks is timed to the end, there was more to
    // come.
    loop {
        tell_at += TELL_INTERVAL;
        while let Ok(result) = timeout_at(tell_at, stream.read_chunk(usize::MAX, true)).await {
            let Ok(Some(chunk)) = result else {
                sleep_until(tell_at).await;
                break;
            };
            bytes += chunk.bytes.len();
            if Instant::now() <= end {
                counted = bytes;
            }
        }
        let span = began.elapsed().as_secs_f64().min(seconds);
        println!("{{\"bytes\": {bytes}, \"goodput_mbps\": {}}}", counted as f64 * 8e-6 / span);
    }
}

async fn send(folder: &Path, server: SocketAddr, seconds: f64, congestion: &str) -> Result<()> {
    let mut roots = rustls::RootCertStore::empty();
    roots.add(std::fs::read(folder.join("certificate.der"))?.into())?;
    let mut config = ClientConfig::with_root_certificates(Arc::new(roots))?;
    config.transport_config(transport(congestion)?);
    let mut endpoint = Endpoint::client(SocketAddr::from(([0, 0, 0, 0], 0)))?;
    endpoint.set_default_client_config(config);
    let connection = endpoint.connect(server, NAME)?.await?;
    let mut stream = connection.open_uni().await?;
    let end = Instant::now() + Duration::from_secs_f64(seconds);
    let filler = [0x5a; 1 << 16];
    while let Ok(result) = timeout_at(end, stream.write_all(&filler)).await {
        result?;
    }
    sleep_until(end).await;
    // What is not sent yet stays here.
    let _ = stream.reset(VarInt::from_u32(0));
    sleep(DRAIN).await;
    Ok(())
}
