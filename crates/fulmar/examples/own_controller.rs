//! A congestion controller of one's own: it keeps the window of a path whose bandwidth and delay it was told,
//! whatever is lost. Unfair to others, so only for a path of one's own.
//!
//! `cargo run --release --features unstable --example own_controller`

use std::error::Error;
use std::sync::Arc;
use std::time::Instant as Clock;

use fulmar::crypto::{self, Identity, TrustKeys};
use fulmar::modules::control::{CongestionController, Feedback, PathView, SendBudget};
use fulmar::{ClientConfig, Endpoint, EndpointConfig, Instant, Profile, Rate, ServerConfig, TransportConfig};

/// What leaves at once, in packets.
const BURST_PACKETS: u64 = 10;

/// Sends at a rate that it was told, with a window for it.
#[derive(Debug)]
struct Told {
    rate: Rate,
    window_bytes: u64,
    mtu_bytes: u32,
}

impl CongestionController for Told {
    fn name(&self) -> &'static str {
        "told"
    }

    fn on_feedback(&mut self, _feedback: &Feedback, path: &PathView) {
        self.mtu_bytes = path.mtu_bytes;
    }

    fn on_timeout(&mut self, _now: Instant, _count: u32, _path: &PathView) {}

    fn on_path_change(&mut self, _now: Instant, path: &PathView) {
        self.mtu_bytes = path.mtu_bytes;
    }

    fn budget(&self) -> SendBudget {
        let burst_bytes = BURST_PACKETS * u64::from(self.mtu_bytes);
        SendBudget { window_bytes: self.window_bytes, pacing: Some(self.rate), burst_bytes }
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut profile = Profile::auto();
    profile.congestion = Arc::new(|context| {
        let rate = Rate::from_bits_per_second(50_000_000);
        Box::new(Told { rate, window_bytes: 4 << 20, mtu_bytes: context.mtu_bytes })
    });
    let mut transport = TransportConfig::default();
    transport.profile(profile);

    // A server that loses 2 % of what it receives.
    let own = Identity::generate();
    let trusted = Arc::new(TrustKeys::new([own.public_key()]));
    let config = ServerConfig::new(Arc::new(crypto::ServerConfig::raw_key(&own, Some(trusted.clone()))));
    let mut lossy = EndpointConfig::default();
    lossy.lose_received_ppm(20_000);
    let server = Endpoint::new(&lossy, Some(config), std::net::UdpSocket::bind("127.0.0.1:0")?)?;
    let address = server.local_addr()?;

    let client = Endpoint::client("127.0.0.1:0".parse()?)?;
    let crypto = Arc::new(crypto::ClientConfig::raw_key(Some(&own), trusted));
    client.set_client_config(ClientConfig { crypto, transport: Arc::new(transport) });
    let connecting = client.connect(address, "localhost")?;
    let accepting = async { server.accept().await.ok_or("closed")?.await.map_err(|error| error.to_string()) };
    let (connection, accepted) = tokio::join!(connecting, accepting);
    let (connection, accepted) = (connection?, accepted?);

    let begin = Clock::now();
    let data = vec![7; 5_000_000];
    let mut send = connection.open_uni().await?;
    let sending = async {
        send.write_all(&data).await?;
        send.finish()?;
        Ok::<_, Box<dyn Error>>(())
    };
    let receiving = async { Ok(accepted.accept_uni().await?.read_to_end(data.len()).await?.len()) };
    let ((), bytes) = tokio::try_join!(sending, receiving)?;
    let (mbps, stats) = (bytes as f64 * 8e-6 / begin.elapsed().as_secs_f64(), connection.stats());
    let lost = 100.0 * stats.loss_before_repair();
    println!("{}: {mbps:.0} Mbit/s, {lost:.1} % lost on the way", stats.controller);
    Ok(())
}
