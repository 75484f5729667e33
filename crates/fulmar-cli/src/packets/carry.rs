//! How packets travel between a TUN device and the tunnel.
//!
//! A sender decides how its packets travel, and a receiver takes them however they come:
//!
//! | delivery | packets travel | so they are |
//! |---|---|---|
//! | `any-order` | each on a stream of its own, in one direction | coded and repaired; a lost one holds up no other |
//! | `in-order` | one behind the other on the stream that opened the tunnel | coded, repaired, in order |
//! | `unreliable` | as datagrams | neither coded nor repaired |
//! | `repaired` | as datagrams | repaired ahead of loss, while they are worth it |
//!
//! On streams each packet has its length before it (16 bits); small packets that are there at the same time
//! share a stream.

use std::fmt;
use std::io;
use std::sync::Arc;

use bytes::{BufMut, BytesMut};
use fulmar::Connection;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tun_rs::AsyncDevice;

use super::clamp::clamp;
use super::fence::Fence;
use crate::tunnel::flow::datagrams::{Inbox, Sender};
use crate::tunnel::flow::drops::Cause;
use crate::tunnel::flow::traffic::{Traffic, Way};
use crate::tunnel::wire::packets::Delivery;

/// Smallest MTU of a tunnel: what IPv6 needs (RFC 8200, section 5).
pub const MTU_MIN: u16 = 1280;

/// Largest MTU of a tunnel.
pub const MTU_MAX: u16 = 9000;

/// Bytes of small packets that share a stream: what fits one symbol for certain.
const BATCH_BYTES: usize = 1100;

const LENGTH_BYTES: usize = 2;

/// A tunnel between a device and a connection.
#[derive(Clone)]
pub struct Tunnel {
    /// Where packets come from and go to.
    pub device: Arc<AsyncDevice>,
    /// What they travel by.
    pub connection: Connection,
    /// How this end sends.
    pub delivery: Delivery,
    /// Longest packet.
    pub mtu: u16,
    /// Which packets go through.
    pub fence: Arc<Fence>,
    /// What counts and limits its bytes.
    pub traffic: Arc<Traffic>,
    /// Which way packets of the device go.
    pub outward: Way,
}

impl fmt::Debug for Tunnel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tunnel")
            .field("delivery", &self.delivery)
            .field("mtu", &self.mtu)
            .finish_non_exhaustive()
    }
}

impl Tunnel {
    /// Carries packets both ways until the connection or the device fails, and tells why. `recv` and `send`
    /// are the rest of the stream that opened the tunnel.
    pub async fn carry<R, W>(&self, recv: R, send: W, mut inbox: Inbox) -> io::Error
    where
        R: AsyncRead + Unpin,
        W: AsyncWrite + Unpin,
    {
        let out = inbox.sender();
        let end = tokio::select! {
            end = self.outward(send, &out) => end,
            end = self.take_stream(recv) => end,
            end = self.take_streams() => end,
            end = self.take_datagrams(&mut inbox) => end,
        };
        end.err().unwrap_or_else(|| io::ErrorKind::UnexpectedEof.into())
    }

    /// Packets of the device into the tunnel. The device's queue is what waits while the tunnel is full.
    async fn outward<W: AsyncWrite + Unpin>(&self, mut stream: W, out: &Sender) -> io::Result<()> {
        // One more byte would tell a packet that is too long; the device has no such.
        let mut packet = vec![0; usize::from(MTU_MAX)];
        let mut batch = BytesMut::new();
        loop {
            let mut length = self.device.recv(&mut packet).await?;
            loop {
                // A device has packets of its own, such as a question for routers: those are for nobody.
                if self.fence.outward.lets(&packet[..length]) {
                    self.pack(&mut packet[..length], out, &mut batch).await;
                }
                if batch.len() >= BATCH_BYTES {
                    break;
                }
                match self.device.try_recv(&mut packet) {
                    Ok(next) => length = next,
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                    Err(error) => return Err(error),
                }
                if batch.len() + LENGTH_BYTES + length > BATCH_BYTES && !batch.is_empty() {
                    self.send_batch(&mut batch, &mut stream).await?;
                }
            }
            self.send_batch(&mut batch, &mut stream).await?;
        }
    }

    /// Sends a packet, or puts it to those that share a stream.
    async fn pack(&self, packet: &mut [u8], out: &Sender, batch: &mut BytesMut) {
        clamp(packet, self.mtu);
        self.traffic.admit(self.outward, packet.len()).await;
        self.traffic.count(self.outward, packet.len());
        let is_sent = match self.delivery {
            Delivery::Unreliable => out.send(packet, false),
            Delivery::Repaired => out.send(packet, true),
            Delivery::AnyOrder | Delivery::InOrder => false,
        };
        if !is_sent {
            batch.put_u16(packet.len() as u16);
            batch.put_slice(packet);
        }
    }

    async fn send_batch<W: AsyncWrite + Unpin>(
        &self,
        batch: &mut BytesMut,
        stream: &mut W,
    ) -> io::Result<()> {
        let packets = batch.split();
        match self.delivery {
            _ if packets.is_empty() => Ok(()),
            Delivery::InOrder => {
                stream.write_all(&packets).await?;
                stream.flush().await
            }
            // Datagrams that are too long for the path go this way, too.
            Delivery::AnyOrder | Delivery::Unreliable | Delivery::Repaired => {
                let mut stream = self.connection.open_uni().await.map_err(io::Error::other)?;
                stream.write_all(&packets).await?;
                stream.finish().map_err(io::Error::other)
            }
        }
    }

    async fn take_stream<R: AsyncRead + Unpin>(&self, mut stream: R) -> io::Result<()> {
        let mut packet = Vec::new();
        loop {
            let length = stream.read_u16().await?;
            if length > MTU_MAX {
                let text = format!("a packet of {length} bytes");
                return Err(io::Error::new(io::ErrorKind::InvalidData, text));
            }
            packet.resize(usize::from(length), 0);
            stream.read_exact(&mut packet).await?;
            self.deliver(&mut packet).await?;
        }
    }

    /// How many streams are read at the same time is what the transport lets the peer open.
    async fn take_streams(&self) -> io::Result<()> {
        let mut reading = tokio::task::JoinSet::new();
        loop {
            tokio::select! {
                stream = self.connection.accept_uni() => {
                    let (tunnel, stream) = (self.clone(), stream.map_err(io::Error::other)?);
                    reading.spawn(async move {
                        match tunnel.take_stream(stream).await {
                            // The end of the stream, after its last packet.
                            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(()),
                            other => other,
                        }
                    });
                }
                Some(ended) = reading.join_next() => ended.map_err(io::Error::other)??,
            }
        }
    }

    async fn take_datagrams(&self, inbox: &mut Inbox) -> io::Result<()> {
        while let Some(packet) = inbox.recv().await {
            self.deliver(&mut packet.to_vec()).await?;
        }
        Err(io::ErrorKind::ConnectionAborted.into())
    }

    async fn deliver(&self, packet: &mut [u8]) -> io::Result<()> {
        if !self.fence.inward.lets(packet) {
            self.traffic.drops.count(Cause::Foreign);
            return Ok(());
        }
        clamp(packet, self.mtu);
        self.traffic.admit(self.outward.back(), packet.len()).await;
        self.traffic.count(self.outward.back(), packet.len());
        match self.device.send(packet).await {
            Ok(_) => Ok(()),
            // What is no IP packet the kernel does not take; a device that is down, neither. Both are as
            // lost.
            Err(error) if matches!(error.raw_os_error(), Some(EINVAL | EIO)) => Ok(()),
            Err(error) => Err(error),
        }
    }
}

const EINVAL: i32 = rustix::io::Errno::INVAL.raw_os_error();
const EIO: i32 = rustix::io::Errno::IO.raw_os_error();
