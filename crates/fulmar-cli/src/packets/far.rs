//! The gateway's half of a tunnel: a device and a pair of addresses for each client.

use std::net::{Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

use tun_rs::{AsyncDevice, DeviceBuilder};

use super::carry::{MTU_MAX, MTU_MIN, Tunnel};
use super::fence::Fence;
use super::pool::{BLOCK_V4_BITS, BLOCK_V6_BITS, Lease, Pool};
use super::rules::GATEWAY_DEVICE;
use crate::exit::Failure;
use crate::session::Session;
use crate::tunnel::flow::datagrams::{Datagrams, Inbox};
use crate::tunnel::flow::traffic::{Traffic, Way};
use crate::tunnel::policy::rules::Rules;
use crate::tunnel::wire::error::{Code, OpenError};
use crate::tunnel::wire::packets::{Grant, Wish};

/// Makes a device with these addresses, and switches it on.
pub fn device(name: &str, v4: Ipv4Addr, v6: Ipv6Addr, mtu: u16) -> std::io::Result<Arc<AsyncDevice>> {
    let builder = DeviceBuilder::new().name(name).mtu(mtu);
    builder.ipv4(v4, BLOCK_V4_BITS, None).ipv6(v6, BLOCK_V6_BITS).build_async().map(Arc::new)
}

/// Why a device could not be made, and what it needs.
pub fn no_device(name: &str, error: &std::io::Error) -> Failure {
    let is_forbidden = error.kind() == std::io::ErrorKind::PermissionDenied;
    let hint = if is_forbidden { ": it needs root, or CAP_NET_ADMIN" } else { "" };
    Failure::Other(format!("cannot make {name}: {error}{hint}"))
}

/// A tunnel at the gateway, before its client has been told.
#[derive(Debug)]
pub struct Opened {
    /// What the client is told.
    pub grant: Grant,
    tunnel: Tunnel,
    inbox: Inbox,
    lease: Lease,
}

/// Gives a client a tunnel, if it may have one.
pub fn open(
    rules: &Rules,
    pool: Option<&Pool>,
    session: Option<&Session>,
    datagrams: &Arc<Datagrams>,
    traffic: Arc<Traffic>,
    wish: &Wish,
) -> Result<Opened, OpenError> {
    let no = |code, text: &str| OpenError::new(code, text);
    if !rules.allows_tun() {
        return Err(no(
            Code::Forbidden,
            "tunnels for packets are not permitted: only keys that reach everything have them",
        ));
    }
    let (Some(pool), Some(session)) = (pool, session) else {
        return Err(no(Code::Forbidden, "this gateway offers no tunnels for packets (--tun)"));
    };
    let inbox = datagrams.tun();
    let inbox = inbox.ok_or_else(|| no(Code::InUse, "this connection has a tunnel for packets already"))?;
    inbox.set_deadline(wish.deadline_ms.map(|ms| std::time::Duration::from_millis(ms.into())));
    // Whoever has no key is let in nowhere.
    let key = session.peer_public_key().ok_or_else(|| no(Code::Forbidden, "a client without a key"))?;
    let lease = pool.lease(key, wish.address);
    let lease = lease.ok_or_else(|| no(Code::Limit, "all addresses for tunnels are taken"))?;
    let ((gateway_v4, v4), (gateway_v6, v6)) = (lease.v4(), lease.v6());
    let mtu = wish.mtu.clamp(MTU_MIN, MTU_MAX);
    let device = device(GATEWAY_DEVICE, gateway_v4, gateway_v6, mtu)
        .map_err(|e| no(Code::Other, &format!("the gateway cannot make a TUN device: {e}")))?;
    let (connection, delivery) = (session.connection().clone(), wish.delivery);
    let fence = Arc::new(Fence::of_gateway(&[v4.into(), v6.into()]));
    let tunnel = Tunnel { device, connection, delivery, mtu, fence, traffic, outward: Way::Down };
    Ok(Opened { grant: Grant { mtu, v4, gateway_v4, v6, gateway_v6 }, tunnel, inbox, lease })
}

impl Opened {
    /// Carries packets until the client goes, or its key has the addresses on another connection.
    pub async fn carry<R, W>(self, recv: R, send: W) -> std::io::Error
    where
        R: tokio::io::AsyncRead + Unpin,
        W: tokio::io::AsyncWrite + Unpin,
    {
        tokio::select! {
            error = self.tunnel.carry(recv, send, self.inbox) => error,
            () = self.lease.ended() => std::io::Error::other("the client has come again"),
        }
    }
}
