//! Where the bridge meets a network: a TUN device, or an interface of this machine to which an endpoint is
//! wired.
//!
//! Both hand over packets behind a `virtio_net_hdr`. A [`Wire`] is a packet socket (packet(7)) on an Ethernet
//! interface: its IP packets go through the model, all other frames (ARP above all) straight to the other
//! side. The bridge is transparent: it learns which Ethernet header belongs to which address from the frames
//! it reads.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::{Arc, Mutex, PoisonError};

use super::packet::HEADER_BYTES;
use crate::sys;

const ETHERNET_BYTES: usize = 14;
const NEEDS_CHECKSUM: u8 = 1;
/// Addresses whose Ethernet header is known, at most: more hosts than sit on a bench.
const NEIGHBOURS_MAX: usize = 4096;

/// Bytes a read may need.
pub(super) const READ_BYTES_MAX: usize = HEADER_BYTES + ETHERNET_BYTES + (1 << 16);

/// One side of the bridge.
#[derive(Debug)]
pub(super) enum Device {
    /// The device of a namespace that the bridge has made.
    Tun(File),
    /// An interface of this machine.
    Wire(Wire),
}

/// What was read.
#[derive(Debug)]
pub(super) enum Found<'a> {
    /// A packet, or several that belong together, behind a `virtio_net_hdr`.
    Packets(&'a [u8]),
    /// A frame that is none of the model's business.
    Frame(&'a [u8]),
}

impl Device {
    pub(super) fn try_clone(&self) -> io::Result<Self> {
        Ok(match self {
            Self::Tun(file) => Self::Tun(file.try_clone()?),
            Self::Wire(wire) => {
                Self::Wire(Wire { socket: wire.socket.try_clone()?, neighbours: wire.neighbours.clone() })
            }
        })
    }

    pub(super) fn read<'a>(&self, buffer: &'a mut [u8]) -> io::Result<Found<'a>> {
        match self {
            Self::Tun(file) => {
                let length = { file }.read(buffer)?;
                Ok(Found::Packets(&buffer[..length]))
            }
            Self::Wire(wire) => wire.read(buffer),
        }
    }

    /// Writes a packet behind its `virtio_net_hdr`.
    pub(super) fn write(&self, packet: &[u8]) -> io::Result<()> {
        match self {
            Self::Tun(file) => { file }.write(packet).map(drop),
            Self::Wire(wire) => wire.write(packet),
        }
    }

    /// Writes a frame as the other side's device has read it.
    pub(super) fn pass(&self, frame: &[u8]) -> io::Result<()> {
        match self {
            Self::Tun(_) => Ok(()),
            Self::Wire(wire) => { &wire.socket }.write(frame).map(drop),
        }
    }

    /// Frames that the kernel dropped because they were not read in time, since this was asked before.
    /// Devices of namespaces count them for themselves.
    pub(super) fn take_drops(&self) -> io::Result<u64> {
        match self {
            Self::Tun(_) => Ok(0),
            Self::Wire(wire) => sys::take_packet_drops(&wire.socket),
        }
    }

    /// Throws away what has queued up while nobody read.
    pub(super) fn drain(&self, buffer: &mut [u8]) {
        while self.read(buffer).is_ok() {}
    }
}

impl AsFd for Device {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Tun(file) => file.as_fd(),
            Self::Wire(wire) => wire.socket.as_fd(),
        }
    }
}

type Neighbours = Arc<Mutex<BTreeMap<[u8; 16], [u8; ETHERNET_BYTES]>>>;

/// An Ethernet interface.
#[derive(Debug)]
pub(super) struct Wire {
    socket: File,
    /// By IP destination, the header of frames that go there: of both sides together.
    neighbours: Neighbours,
}

impl Wire {
    /// Two interfaces by their names.
    pub(super) fn pair(names: [&str; 2]) -> io::Result<[Self; 2]> {
        let neighbours = Neighbours::default();
        let open = |name: &str| {
            let socket = sys::packet_socket(name)
                .map_err(|error| io::Error::new(error.kind(), format!("interface '{name}': {error}")))?;
            Ok::<_, io::Error>(Self { socket, neighbours: neighbours.clone() })
        };
        Ok([open(names[0])?, open(names[1])?])
    }

    fn read<'a>(&self, buffer: &'a mut [u8]) -> io::Result<Found<'a>> {
        let length = { &self.socket }.read(buffer)?;
        let ip_at = HEADER_BYTES + ETHERNET_BYTES;
        let destination = buffer.get(ip_at..length).and_then(destination);
        let is_ip = matches!(buffer.get(ip_at - 2..ip_at), Some([0x08, 0x00] | [0x86, 0xdd]));
        let Some(destination) = destination.filter(|_| is_ip) else {
            return Ok(Found::Frame(&buffer[..length]));
        };
        let mut ethernet = [0; ETHERNET_BYTES];
        ethernet.copy_from_slice(&buffer[HEADER_BYTES..ip_at]);
        let mut neighbours = self.neighbours.lock().unwrap_or_else(PoisonError::into_inner);
        if neighbours.len() < NEIGHBOURS_MAX || neighbours.contains_key(&destination) {
            neighbours.insert(destination, ethernet);
        }
        // The header moves up to the packet; what it counts from the frame's start now counts from the
        // packet's.
        buffer.copy_within(..HEADER_BYTES, ETHERNET_BYTES);
        let packet = &mut buffer[ETHERNET_BYTES..length];
        shift(packet, 2, |bytes| bytes.saturating_sub(ETHERNET_BYTES as u16));
        if packet[0] & NEEDS_CHECKSUM != 0 {
            shift(packet, 6, |bytes| bytes.saturating_sub(ETHERNET_BYTES as u16));
        }
        Ok(Found::Packets(packet))
    }

    fn write(&self, packet: &[u8]) -> io::Result<()> {
        let (header, ip) = packet.split_at(HEADER_BYTES.min(packet.len()));
        let known = destination(ip).and_then(|destination| {
            self.neighbours.lock().unwrap_or_else(PoisonError::into_inner).get(&destination).copied()
        });
        // Damaged on the way so that it goes nowhere.
        let Some(ethernet) = known else { return Err(io::ErrorKind::WouldBlock.into()) };
        let mut frame = Vec::with_capacity(packet.len() + ETHERNET_BYTES);
        frame.extend_from_slice(header);
        frame.extend_from_slice(&ethernet);
        frame.extend_from_slice(ip);
        // One packet, to be cut no further.
        frame[1..6].fill(0);
        if frame[0] & NEEDS_CHECKSUM != 0 {
            shift(&mut frame, 6, |bytes| bytes + ETHERNET_BYTES as u16);
        }
        { &self.socket }.write(&frame).map(drop)
    }
}

/// Changes a number of the `virtio_net_hdr`, which is in the machine's byte order.
fn shift(packet: &mut [u8], at: usize, change: impl FnOnce(u16) -> u16) {
    let value = change(u16::from_ne_bytes([packet[at], packet[at + 1]]));
    packet[at..at + 2].copy_from_slice(&value.to_ne_bytes());
}

/// Where a packet goes.
fn destination(ip: &[u8]) -> Option<[u8; 16]> {
    let bytes = match ip.first()? >> 4 {
        4 => ip.get(16..20)?,
        6 => ip.get(24..40)?,
        _ => return None,
    };
    let mut address = [0; 16];
    address[..bytes.len()].copy_from_slice(bytes);
    Some(address)
}
