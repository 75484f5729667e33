//! The driver: a socket, a thread of ours, connections both ways.

use std::ffi::c_char;
use std::net::{SocketAddr, UdpSocket};
use std::sync::{Arc, Mutex, PoisonError, mpsc as blocking};
use std::task::Context;
use std::thread::JoinHandle;
use std::time::Duration;

use fulmar::identity::{Home, Host, HostError};
use fulmar::{ClientConfig, Connection, Endpoint, EndpointConfig, TransportConfig};
use tokio::runtime::{Builder, Handle};
use tokio::sync::{mpsc, oneshot};

use crate::code::{self, FUL_ERR_ARGUMENT, FUL_ERR_CLOSED, FUL_ERR_CONFIG, FUL_ERR_FAILED, FUL_ERR_IO};
use crate::code::{FUL_ERR_UNTRUSTED, FUL_WOULDBLOCK, guard};
use crate::config::{FUL_TRUST_NEW, Settings, Trust, ful_config};
use crate::connection::{Driver, ful_conn};
use crate::event::{FUL_EVENT_ACCEPT, Interests, Of, Queue, ful_event};
use crate::failure::{Failure, ful_error, tell};
use crate::memory;

/// Connections that are complete and wait for ful_accept; the others wait with their handshakes done.
const ACCEPTED_MAX: usize = 64;
/// After ful_endpoint_free the peers get so long to hear of it.
const LAST_WORDS: Duration = Duration::from_millis(50);
/// What a stream takes before its writer waits. The thread that drives wakes it when half has left, and that
/// is dear: with the default of 256 KiB threads took turns ten thousand times a second.
const STREAM_SEND_BUFFER_BYTES: u64 = 1 << 20;

/// A UDP socket with any number of connections, and the thread that drives them.
pub struct ful_endpoint {
    driver: Arc<Driver>,
    endpoint: Endpoint,
    opens: Opens,
    accepted: Option<Mutex<mpsc::Receiver<Connection>>>,
    interests: Interests,
    /// Gone when the endpoint is: the thread ends then.
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

/// How connections are opened.
#[derive(Clone)]
enum Opens {
    WithKeys(ClientConfig),
    WithHome { home: Home, transport: Box<TransportConfig>, trusts_new: bool },
}

impl Opens {
    async fn connect(self, endpoint: Endpoint, host: Host) -> Result<Connection, Failure> {
        match self {
            Self::WithKeys(config) => connect_with_keys(&endpoint, &config, &host).await,
            Self::WithHome { home, transport, trusts_new } => {
                home.connect(&endpoint, &host, *transport, async |_| trusts_new).await.map_err(of_host)
            }
        }
    }
}

async fn connect_with_keys(
    endpoint: &Endpoint,
    config: &ClientConfig,
    host: &Host,
) -> Result<Connection, Failure> {
    let addresses = host.resolve().await.map_err(|why| Failure::new(FUL_ERR_IO, format!("{host}: {why}")))?;
    let mut last = Failure::new(FUL_ERR_IO, format!("{host}: no address"));
    for address in addresses {
        match endpoint.connect_with(config, address, host.name()) {
            Ok(connecting) => match connecting.await {
                Ok(connection) => return Ok(connection),
                Err(why) => last = Failure::new(code::of_connection(&why), format!("{host}: {why}")),
            },
            Err(why) => last = Failure::new(FUL_ERR_FAILED, format!("{host}: {why}")),
        }
    }
    Err(last)
}

fn of_host(error: HostError) -> Failure {
    let code = match &error {
        HostError::KeyChanged { .. } | HostError::NotTrusted(_) => FUL_ERR_UNTRUSTED,
        HostError::Store(_) => code::FUL_ERR_KEYS,
        HostError::Resolve { .. } => FUL_ERR_IO,
        HostError::Connection { error, .. } => code::of_connection(error),
        _ => FUL_ERR_FAILED,
    };
    Failure::new(code, error)
}

fn bind(address: Option<&str>) -> Result<UdpSocket, Failure> {
    let Some(text) = address else {
        let any = UdpSocket::bind("[::]:0").or_else(|_| UdpSocket::bind("0.0.0.0:0"));
        return any.map_err(|why| Failure::new(FUL_ERR_IO, why));
    };
    let no_address = |_| Failure::new(FUL_ERR_CONFIG, format!("\"{text}\" is no address with a port"));
    let address: SocketAddr = text.parse().map_err(no_address)?;
    UdpSocket::bind(address).map_err(|why| Failure::new(FUL_ERR_IO, format!("{address}: {why}")))
}

/// Lets clients in, whose handshakes go on side by side, until the endpoint is closed.
async fn let_in(endpoint: Endpoint, accepted: mpsc::Sender<Connection>) {
    while let Some(incoming) = endpoint.accept().await {
        let accepted = accepted.clone();
        tokio::spawn(async move {
            if let Ok(connection) = incoming.await {
                // Where nobody takes it any more, it ends.
                let _ = accepted.send(connection).await;
            }
        });
    }
}

/// What the thread does: everything that tasks do, until it is told to stop.
async fn drive(endpoint: Endpoint, stopped: oneshot::Receiver<()>) {
    let _ = stopped.await;
    endpoint.close(0, b"");
    let _ = tokio::time::timeout(LAST_WORDS, endpoint.wait_idle()).await;
}

impl ful_endpoint {
    fn new(mut settings: Settings) -> Result<Self, Failure> {
        let io = |error: std::io::Error| Failure::new(FUL_ERR_IO, error);
        settings.transport.stream_send_buffer_bytes(STREAM_SEND_BUFFER_BYTES)?;
        let server = settings.server()?;
        let serves = server.is_some();
        let opens = match (&settings.trust, settings.client()) {
            (_, Some(config)) => Opens::WithKeys(config),
            (Trust::Home(home), None) => Opens::WithHome {
                home: home.clone(),
                transport: Box::new(settings.transport.clone()),
                trusts_new: settings.has(FUL_TRUST_NEW),
            },
            (Trust::Keys { .. }, None) => return Err(FUL_ERR_CONFIG.into()),
        };
        let mut config = EndpointConfig::default();
        config.lose_received_ppm(settings.lose_received_ppm).rebind_on_silence(!serves);
        if let Some(bytes) = settings.memory_bytes {
            config.memory_bytes(bytes);
        }
        let socket = bind(settings.bind.as_deref())?;
        let queue = Queue::new().map_err(io)?;
        let runtime = Builder::new_current_thread().enable_all().build().map_err(io)?;
        let handle = runtime.handle().clone();
        let entered = handle.enter();
        let endpoint = Endpoint::new(&config, server, socket).map_err(io)?;
        drop(entered);
        let (stop, stopped) = oneshot::channel();
        let driven = endpoint.clone();
        let thread = std::thread::Builder::new().name("fulmar".into()).spawn(move || {
            runtime.block_on(drive(driven, stopped));
            // A name may still be looked up, which nobody waits for.
            runtime.shutdown_background();
        });
        let thread = thread.map_err(io)?;
        let interests = Interests::new(&queue, Of::Endpoint, &[FUL_EVENT_ACCEPT]);
        let accepted = serves.then(|| {
            let (sender, receiver) = mpsc::channel(ACCEPTED_MAX);
            handle.spawn(let_in(endpoint.clone(), sender));
            interests.waker(FUL_EVENT_ACCEPT).wake();
            Mutex::new(receiver)
        });
        let driver = Arc::new(Driver { runtime: handle, queue });
        Ok(Self { driver, endpoint, opens, accepted, interests, stop: Some(stop), thread: Some(thread) })
    }

    fn runtime(&self) -> &Handle {
        &self.driver.runtime
    }

    /// Waits for `future` in this thread; FUL_WOULDBLOCK if it takes longer than `limit_ms` (below zero: for
    /// ever).
    fn wait_for(&self, limit_ms: i32, future: impl Future<Output = ()> + Send + 'static) -> code::Outcome {
        let (done, is_done) = blocking::sync_channel(1);
        let task = self.runtime().spawn(async move {
            future.await;
            let _ = done.send(());
        });
        let result = match limit(limit_ms) {
            None => is_done.recv().map_err(|_| FUL_ERR_CLOSED),
            Some(limit) => is_done.recv_timeout(limit).map_err(|_| FUL_WOULDBLOCK),
        };
        task.abort();
        result
    }
}

/// As poll(2) has it: below zero is without end.
fn limit(ms: i32) -> Option<Duration> {
    u64::try_from(ms).ok().map(Duration::from_millis)
}

impl Drop for ful_endpoint {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            // It ends also where it has panicked.
            let _ = thread.join();
        }
    }
}

/// Opens a socket and starts the thread that drives it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ful_endpoint_new(
    config: *const ful_config,
    out: *mut *mut ful_endpoint,
    error: *mut ful_error,
) -> i32 {
    guard(|| {
        // SAFETY: as the header asks.
        let made = unsafe { Settings::read(config) }.and_then(ful_endpoint::new);
        match made {
            // SAFETY: as the header asks.
            Ok(endpoint) => unsafe { memory::give(out, endpoint) },
            // SAFETY: as the header asks.
            Err(failure) => Err(unsafe { tell(failure, error) }),
        }
    })
}

/// Closes all connections at once, ends the thread and frees the endpoint; within a second. Handles of
/// connections and streams stay valid, and are to be freed as well; no events come any more. NULL is fine.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ful_endpoint_free(endpoint: *mut ful_endpoint) {
    guard(|| {
        // SAFETY: as the header asks.
        drop(unsafe { memory::take_back(endpoint) });
        Ok(())
    });
}

/// The address of the socket, "127.0.0.1:4747".
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ful_endpoint_address(
    endpoint: *const ful_endpoint,
    out: *mut c_char,
    capacity: usize,
    len: *mut usize,
) -> i32 {
    guard(|| {
        // SAFETY: as the header asks.
        let endpoint = unsafe { memory::borrow(endpoint) }?;
        let address = endpoint.endpoint.local_addr().map_err(|_| FUL_ERR_IO)?;
        // SAFETY: as the header asks.
        unsafe { memory::fill_text(&address.to_string(), out, capacity, len) }
    })
}

/// The descriptor that is readable as long as there are events: for poll, select, epoll. It is the
/// endpoint's: it is not to be read, written or closed. Below zero on systems that have none: ful_wait works
/// everywhere.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ful_endpoint_descriptor(endpoint: *const ful_endpoint) -> i32 {
    let mut descriptor = FUL_ERR_ARGUMENT;
    guard(|| {
        // SAFETY: as the header asks.
        descriptor = unsafe { memory::borrow(endpoint) }?.driver.queue.descriptor();
        Ok(())
    });
    descriptor
}

/// The next event, into `event`, whose `size` is set. FUL_WOULDBLOCK: there is none, and the descriptor is
/// not readable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ful_event_next(endpoint: *const ful_endpoint, event: *mut ful_event) -> i32 {
    guard(|| {
        // SAFETY: as the header asks.
        let endpoint = unsafe { memory::borrow(endpoint) }?;
        if event.is_null() {
            return Err(FUL_ERR_ARGUMENT);
        }
        let next = endpoint.driver.queue.next().ok_or(FUL_WOULDBLOCK)?;
        // SAFETY: as the header asks.
        unsafe { memory::write_sized(event, &next) }
    })
}

/// Waits until there is an event, for at most `limit_ms` (below zero: without end). FUL_WOULDBLOCK: there is
/// none.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ful_wait(endpoint: *const ful_endpoint, limit_ms: i32) -> i32 {
    guard(|| {
        // SAFETY: as the header asks.
        let endpoint = unsafe { memory::borrow(endpoint) }?;
        if endpoint.driver.queue.wait(limit(limit_ms)) { Ok(()) } else { Err(FUL_WOULDBLOCK) }
    })
}

/// Begins a connection to `host` ("name:port"). It can be used after FUL_EVENT_CONNECTED; until then its
/// functions say FUL_WOULDBLOCK. Where it does not come about, FUL_EVENT_CLOSED comes instead. Its `user` is
/// set here, so that the events have it from the first.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ful_connect(
    endpoint: *const ful_endpoint,
    host: *const c_char,
    user: *mut std::ffi::c_void,
    out: *mut *mut ful_conn,
) -> i32 {
    guard(|| {
        // SAFETY: as the header asks.
        let (endpoint, host) = unsafe { (memory::borrow(endpoint)?, memory::some_text(host)?) };
        let host: Host = host.parse().map_err(|_| FUL_ERR_ARGUMENT)?;
        let connecting = endpoint.opens.clone().connect(endpoint.endpoint.clone(), host);
        // SAFETY: as the header asks.
        unsafe { ful_conn::begin(&endpoint.driver, user, connecting, out) }
    })
}

/// The next client that was let in. FUL_WOULDBLOCK: FUL_EVENT_ACCEPT follows.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ful_accept(endpoint: *const ful_endpoint, out: *mut *mut ful_conn) -> i32 {
    guard(|| {
        // SAFETY: as the header asks.
        let endpoint = unsafe { memory::borrow(endpoint) }?;
        if out.is_null() {
            return Err(FUL_ERR_ARGUMENT);
        }
        let mut accepted = match &endpoint.accepted {
            Some(accepted) => accepted.lock().unwrap_or_else(PoisonError::into_inner),
            None => return Err(FUL_ERR_ARGUMENT),
        };
        let waker = endpoint.interests.waker(FUL_EVENT_ACCEPT);
        match accepted.poll_recv(&mut Context::from_waker(&waker)) {
            std::task::Poll::Pending => Err(FUL_WOULDBLOCK),
            std::task::Poll::Ready(None) => Err(FUL_ERR_CLOSED),
            // SAFETY: not NULL.
            std::task::Poll::Ready(Some(it)) => unsafe { ful_conn::accepted(&endpoint.driver, it, out) },
        }
    })
}

/// Waits until no connection is left, for at most `limit_ms` (below zero: without end): all have ended, and
/// their peers had the time to hear of it. FUL_WOULDBLOCK: some are left. To be called before the program
/// ends.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ful_endpoint_wait_idle(endpoint: *const ful_endpoint, limit_ms: i32) -> i32 {
    guard(|| {
        // SAFETY: as the header asks.
        let endpoint = unsafe { memory::borrow(endpoint) }?;
        let idle = endpoint.endpoint.clone();
        endpoint.wait_for(limit_ms, async move { idle.wait_idle().await })
    })
}
