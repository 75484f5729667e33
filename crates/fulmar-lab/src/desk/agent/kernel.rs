//! Connections of the kernel's TCP.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use tokio::net::{TcpListener, TcpStream};

use super::ground::Ground;
use super::pipe::{Inlet, Outlet};
use crate::desk::control::Job;

/// Listens for one connection.
pub(super) fn listen(ground: &Ground, job: &Job) -> Result<TcpListener, String> {
    ground.set_ecn(job.ecn).map_err(|error| error.to_string())?;
    let listener = ground.listener(job.network, job.port).map_err(|error| error.to_string())?;
    TcpListener::from_std(listener).map_err(|error| error.to_string())
}

/// Takes it.
pub(super) async fn accept(listener: TcpListener) -> Result<Inlet, String> {
    let (stream, _) = listener.accept().await.map_err(|error| error.to_string())?;
    Ok(Inlet::Kernel(stream))
}

/// Connects with a congestion control.
pub(super) async fn connect(
    ground: Arc<Ground>,
    job: &Job,
    congestion: &str,
    to: SocketAddr,
) -> Result<Outlet, String> {
    let SocketAddr::V4(to) = to else { return Err("the kernel's TCP runs over IPv4 here".into()) };
    let (address, port): (Ipv4Addr, u16) = (*to.ip(), to.port());
    let (ecn, congestion) = (job.ecn, congestion.to_owned());
    let connecting = tokio::task::spawn_blocking(move || {
        ground.set_ecn(ecn)?;
        ground.connect(&congestion, (address, port))
    });
    let stream = connecting.await.map_err(|error| error.to_string())?.map_err(|error| error.to_string())?;
    TcpStream::from_std(stream).map(Outlet::Kernel).map_err(|error| error.to_string())
}
