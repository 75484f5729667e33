//! A relay that treats UDP as a bad network would: what `fulmar demo`, the operator's desk and
//! the siege put between client and server.
//!
//! Clients send to the relay's address; for each of them the relay has a socket of its own toward the server,
//! as a NAT has. In between, the packets of all clients share two links of `fulmar-net`, one per direction,
//! in real time. ECN marks pass, and are set where the links say so. No privileges are needed.
//!
//! One thread does everything: it waits in `ppoll`, whose timer is good to some 50 us (tokio's is to 1 ms),
//! hands what arrives to the links and sends what comes out. How late it was for each packet is in
//! [`RelayStats::lateness`]: on two busy cores 0.05 ms for half of them and 0.1 ms for nine in ten, at 200
//! Mbit/s each way and 40 % of a core (`relay_speed`).
//!
//! Somebody on the way may meddle besides ([`Meddling`]): drop what has ECN bits, close ports, copy packets.
//!
//! The links' time starts with the relay: a black-out from 10 s to 12 s is that long after the start. Empty
//! datagrams do not pass. Memory is bounded: by [`RelayConfig::held_bytes_max`] for packets on the way in
//! each direction, and by [`RelayConfig::clients_max`], beyond which the client that was silent for longest
//! is forgotten. Unix only.

#![cfg(unix)]
#![forbid(unsafe_code)]

mod config;
mod meddling;
mod port;
#[cfg(test)]
mod tests;
mod worker;

use std::io::{self, Write};
use std::net::SocketAddr;
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::thread::JoinHandle;

use fulmar_net::{Direction, LinkConfig};

use config::Command;
pub use config::{RelayConfig, RelayStats};
pub use meddling::{Copying, Meddling};
use port::Port;
use worker::Worker;

/// A running relay. Stops when dropped.
#[derive(Debug)]
pub struct Relay {
    address: SocketAddr,
    commands: mpsc::Sender<Command>,
    bell: UnixStream,
    stats: Arc<Mutex<RelayStats>>,
    thread: Option<JoinHandle<io::Result<()>>>,
}

impl Relay {
    /// Opens the socket toward clients and starts the thread.
    ///
    /// # Errors
    /// If the address is taken, or there are no more sockets or threads.
    pub fn start(config: RelayConfig) -> io::Result<Self> {
        let listener = Port::bind(config.listen)?;
        let address = listener.socket.local_addr()?;
        let (bell, ear) = UnixStream::pair()?;
        bell.set_nonblocking(true)?;
        ear.set_nonblocking(true)?;
        let (commands, inbox) = mpsc::channel();
        let stats = Arc::new(Mutex::new(RelayStats::default()));
        let worker = Worker::new(&config, listener, ear, inbox, Arc::clone(&stats))?;
        let thread = std::thread::Builder::new().name("relay".into()).spawn(|| worker.run())?;
        Ok(Self { address, commands, bell, stats, thread: Some(thread) })
    }

    /// Where clients send to.
    pub const fn local_addr(&self) -> SocketAddr {
        self.address
    }

    /// What it did so far.
    pub fn stats(&self) -> RelayStats {
        self.stats.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Changes what the link of a direction does from now on.
    pub fn reconfigure(&self, direction: Direction, config: LinkConfig) {
        self.tell(Command::Reconfigure(direction, Box::new(config)));
    }

    /// Gives every client a new port toward the server, as a NAT that has lost its state.
    pub fn rebind(&self) {
        self.tell(Command::Rebind);
    }

    /// Changes what is done to packets besides. A port's life counts from the first packet of it, also before
    /// this.
    pub fn meddle(&self, meddling: Meddling) {
        self.tell(Command::Meddle(meddling));
    }

    /// Stops and returns the final statistics. What is still on the way is lost.
    ///
    /// # Errors
    /// If the thread ended early, because the system refused to wait on its sockets.
    pub fn stop(mut self) -> io::Result<RelayStats> {
        self.join()?;
        Ok(self.stats())
    }

    fn tell(&self, command: Command) {
        // A worker that is gone needs no commands; a full pipe already rings.
        let _ = self.commands.send(command);
        let _ = (&self.bell).write(&[1]);
    }

    fn join(&mut self) -> io::Result<()> {
        let Some(thread) = self.thread.take() else { return Ok(()) };
        self.tell(Command::Stop);
        thread.join().unwrap_or_else(|_| Err(io::Error::other("the relay's thread panicked")))
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        let _ = self.join();
    }
}
