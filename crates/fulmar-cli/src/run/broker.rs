//! Answers the preloaded library (`fulmar-carry`), and carries the sockets it hands over.

use std::collections::HashMap;
use std::future::Future;
use std::io::{IoSlice, IoSliceMut};
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use fulmar_carry::{MESSAGE_BYTES_MAX, Question, Reply, Request, StandIn};
use tokio::net::TcpStream;
use tokio_seqpacket::ancillary::{AncillaryMessageReader, OwnedAncillaryMessage};
use tokio_seqpacket::{UnixSeqpacket, UnixSeqpacketListener};

use super::door::{self, Door};
use super::errno::Errno;
use super::names::Names;
use crate::exit::Failure;
use crate::tunnel::Place;

/// How long the error of a connection is remembered for a program that never asks.
const VERDICT_TIME: Duration = Duration::from_secs(60);

/// How long a program may take to say what it wants.
const QUESTION_TIME_MAX: Duration = Duration::from_secs(5);

/// Who connects to targets.
pub trait Dial: Send + Sync + 'static {
    /// A connection to a target.
    type Flow: Send;

    /// Connects; the error is what the program is to see.
    fn dial(&self, target: Place) -> impl Future<Output = Result<Self::Flow, Errno>> + Send;

    /// Carries bytes between the program and the target until both have ended.
    fn carry(&self, program: TcpStream, flow: Self::Flow) -> impl Future<Output = ()> + Send;
}

/// Where a socket of the program stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// The gateway has not answered yet, or the connection is there.
    Carried,
    /// The target has not been reached, and the program does not know it yet.
    Failed(Errno),
}

/// Answers questions until it is dropped.
#[derive(Debug)]
pub struct Broker {
    listener: UnixSeqpacketListener,
}

/// Where a broker listens. It is no part of the broker, whose task may still hold it when the process ends as
/// its program has ended: by a signal, with which nothing is cleared away.
#[derive(Debug)]
pub struct Folder(tempfile::TempDir);

impl Folder {
    /// The socket in it.
    pub fn path(&self) -> PathBuf {
        self.0.path().join("socket")
    }
}

#[derive(Debug)]
struct Desk<D> {
    dialer: D,
    door: Door,
    names: Mutex<Names>,
    /// By cookie: the target as the program has named it, and how far it is.
    sockets: Mutex<HashMap<u64, (SocketAddr, Stage)>>,
}

impl Broker {
    /// Listens at a new Unix socket that only this user can reach, in a folder that goes away with the second
    /// value: nobody else can enter it, whatever the umask.
    pub fn new() -> Result<(Self, Folder), Failure> {
        let broken = |what: &str, e: std::io::Error| Failure::Other(format!("{what}: {e}"));
        let own = std::fs::Permissions::from_mode(0o700);
        let folder = tempfile::Builder::new().prefix("fulmar-run-").permissions(own).tempdir();
        let folder = Folder(folder.map_err(|e| broken("no folder for a socket", e))?);
        let listener = UnixSeqpacketListener::bind(folder.path());
        Ok((Self { listener: listener.map_err(|e| broken("no socket for the program", e))? }, folder))
    }

    /// Answers for ever.
    pub async fn serve(mut self, dialer: impl Dial) -> Result<(), Failure> {
        let door = Door::new().map_err(|e| Failure::Other(format!("no port on loopback: {e}")))?;
        let desk = Arc::new(Desk { dialer, door, names: Mutex::default(), sockets: Mutex::default() });
        loop {
            match self.listener.accept().await {
                Ok(line) => {
                    let desk = Arc::clone(&desk);
                    tokio::spawn(async move {
                        // A program that says nothing, or is gone, has no question.
                        let _ = tokio::time::timeout(QUESTION_TIME_MAX, desk.answer(line)).await;
                    });
                }
                // Out of descriptors: those that are in use come back.
                Err(error) => {
                    tracing::warn!("the program cannot be heard: {error}");
                    tokio::time::sleep(Duration::from_millis(100)).await;
                }
            }
        }
    }
}

impl<D: Dial> Desk<D> {
    async fn answer(self: &Arc<Self>, line: UnixSeqpacket) -> Option<()> {
        let mut buffer = [0; MESSAGE_BYTES_MAX + 1];
        let mut control = [0; 64];
        let (length, socket) = {
            let mut parts = [IoSliceMut::new(&mut buffer)];
            let received = line.recv_vectored_with_ancillary(&mut parts, &mut control).await;
            let (message, ancillary) = received.ok()?;
            (message.bytes_read(), take_socket(ancillary))
        };
        let request = Request::decode(&buffer[..length])?;
        let mut out = [0; MESSAGE_BYTES_MAX];
        let length = self.reply(&request, socket, &mut out)?;
        line.send_vectored(&[IoSlice::new(&out[..length])]).await.ok().map(drop)
    }

    fn reply(
        self: &Arc<Self>,
        request: &Request<'_>,
        socket: Option<OwnedFd>,
        out: &mut [u8; MESSAGE_BYTES_MAX],
    ) -> Option<usize> {
        match request.question {
            Question::Connect => self.connect(request, socket).encode(out),
            Question::Verdict => Reply::error(self.take_verdict(request.cookie)).encode(out),
            Question::Peer => self.peer(request).encode(out),
            Question::StandIn => {
                let stand_in = lock(&self.names).stand_in(request.name);
                Reply::address((stand_in.v4(), 0).into()).encode(out)
            }
            Question::Name => {
                let names = lock(&self.names);
                let name = request.address.and_then(|address| names.name(address.ip()));
                Reply { name: name.unwrap_or_default(), ..Reply::default() }.encode(out)
            }
        }
    }

    fn connect(self: &Arc<Self>, request: &Request<'_>, socket: Option<OwnedFd>) -> Reply<'static> {
        let (Some(address), Some(socket)) = (request.address, socket) else {
            return Reply::error(Errno::INVAL.raw());
        };
        // The program's own word is not needed, and so not believed.
        let Ok(cookie) = rustix::net::sockopt::socket_cookie(&socket) else {
            return Reply::error(Errno::NOTSOCK.raw());
        };
        let mut sockets = lock(&self.sockets);
        match sockets.get(&cookie) {
            Some((_, Stage::Failed(errno))) => {
                let reply = Reply::error(errno.raw());
                sockets.remove(&cookie);
                return reply;
            }
            // The kernel knows what to say of a second attempt.
            Some((target, Stage::Carried)) => return Reply::address(self.door.address_for(*target)),
            None => {}
        }
        let Some(place) = self.place(address) else {
            // The address of a name that nobody has asked about, or not for a long time.
            return Reply::error(Errno::HOSTUNREACH.raw());
        };
        sockets.insert(cookie, (address, Stage::Carried));
        tokio::spawn(Arc::clone(self).carry(cookie, socket, place));
        Reply::address(self.door.address_for(address))
    }

    /// What an address stands for: a name, or itself.
    fn place(&self, address: SocketAddr) -> Option<Place> {
        let ip = address.ip().to_canonical();
        match StandIn::of(ip) {
            Some(_) => lock(&self.names).name(ip).map(|name| Place::new(name, address.port())),
            None => Some(Place::from(SocketAddr::new(ip, address.port()))),
        }
    }

    async fn carry(self: Arc<Self>, cookie: u64, socket: OwnedFd, place: Place) {
        let named = format!("{place}");
        let dialled = self.dialer.dial(place).await;
        if !door::knocks(&socket).await {
            lock(&self.sockets).remove(&cookie);
            return;
        }
        let opened = match dialled {
            Ok(flow) => self.door.open(&socket).await.map(|program| (program, flow)).map_err(|error| {
                tracing::warn!("{named}: the program's socket could not be connected: {error}");
                Errno::CONNABORTED
            }),
            Err(errno) => Err(errno),
        };
        match opened {
            Ok((program, flow)) => {
                // From here on the program alone decides how long its socket lives.
                drop(socket);
                self.dialer.carry(program, flow).await;
                lock(&self.sockets).remove(&cookie);
            }
            Err(errno) => self.refuse(cookie, socket, errno).await,
        }
    }

    async fn refuse(&self, cookie: u64, socket: OwnedFd, errno: Errno) {
        if let Some((_, stage)) = lock(&self.sockets).get_mut(&cookie) {
            *stage = Stage::Failed(errno);
        }
        self.door.turn_away(&socket, || self.is_failed(cookie)).await;
        drop(socket);
        tokio::time::sleep(VERDICT_TIME).await;
        self.take_verdict(cookie);
    }

    fn is_failed(&self, cookie: u64) -> bool {
        matches!(lock(&self.sockets).get(&cookie), Some((_, Stage::Failed(_))))
    }

    /// The error of a connection that failed; 0 if none did. It is told once.
    fn take_verdict(&self, cookie: u64) -> i32 {
        let mut sockets = lock(&self.sockets);
        match sockets.get(&cookie) {
            Some((_, Stage::Failed(errno))) => {
                let errno = errno.raw();
                sockets.remove(&cookie);
                errno
            }
            _ => 0,
        }
    }

    fn peer(&self, request: &Request<'_>) -> Reply<'static> {
        let is_ours = request.address.is_some_and(|address| self.door.is_at(address));
        let sockets = lock(&self.sockets);
        let address = sockets.get(&request.cookie).filter(|_| is_ours).map(|(target, _)| *target);
        Reply { address, ..Reply::default() }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The descriptor that came with a message; more than one are closed.
fn take_socket(ancillary: AncillaryMessageReader<'_>) -> Option<OwnedFd> {
    let mut sockets = ancillary.into_messages().flat_map(|message| match message {
        OwnedAncillaryMessage::FileDescriptors(descriptors) => descriptors.collect::<Vec<_>>(),
        _ => Vec::new(),
    });
    let first = sockets.next();
    sockets.for_each(drop);
    first
}
