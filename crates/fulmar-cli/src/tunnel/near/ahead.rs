//! What is sent ahead of the answer to an open. As long as nothing was, another gateway can be asked; what
//! was sent is never said again, for a target would have it twice if it was the answer only that was lost.

use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::task::{Context, Poll, Waker, ready};

use fulmar::RecvStream;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::session::Session;
use crate::tunnel::flow::halves::{RecvHalf, SendHalf, TunnelSend};
use crate::tunnel::wire::error::OpenError;

/// How far an open is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// A gateway was asked.
    Asked,
    /// It was lost, and another is looked for.
    Lost,
    /// There is an answer, or there will be none.
    Settled,
}

#[derive(Debug)]
struct State {
    stage: Stage,
    /// Something was sent to the target.
    has_said: bool,
    has_ended: bool,
    /// The connection that was asked on.
    session: Session,
    /// The stream to go on with.
    next: Option<TunnelSend>,
    writer: Option<Waker>,
}

/// The hold on the sending half, of whoever waits for the answer.
#[derive(Debug)]
pub struct Ahead(Arc<Mutex<State>>);

/// The sending half of a flow whose answer may still be on its way.
#[derive(Debug)]
pub struct AheadSend {
    stream: TunnelSend,
    state: Arc<Mutex<State>>,
    is_settled: bool,
}

fn lock(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Ahead {
    /// Of a flow that was asked for on this stream of this connection.
    pub fn new(stream: TunnelSend, session: &Session) -> (Self, AheadSend) {
        let state = State {
            stage: Stage::Asked,
            has_said: false,
            has_ended: false,
            session: session.clone(),
            next: None,
            writer: None,
        };
        let state = Arc::new(Mutex::new(state));
        (Self(Arc::clone(&state)), AheadSend { stream, state, is_settled: false })
    }

    /// The gateway was lost: may another be asked? Then nothing more is said until [`go_on`](Self::go_on).
    pub fn begin_again(&self) -> bool {
        let mut state = lock(&self.0);
        if !state.has_said {
            state.stage = Stage::Lost;
        }
        !state.has_said
    }

    /// It was asked for again, on this stream of another connection.
    pub fn go_on(&self, mut stream: TunnelSend, session: &Session) {
        let mut state = lock(&self.0);
        if state.has_ended {
            // A connection that is lost again is noticed by whoever waits for the answer.
            let _ = stream.end();
        }
        (state.next, state.session, state.stage) = (Some(stream), session.clone(), Stage::Asked);
        state.wake();
    }

    /// There is an answer, or there will be none.
    pub fn settle(&self) {
        let mut state = lock(&self.0);
        state.stage = Stage::Settled;
        state.wake();
    }
}

impl State {
    fn wake(&mut self) {
        if let Some(writer) = self.writer.take() {
            writer.wake();
        }
    }

    /// A stream that fails now may be followed by another.
    fn may_go_on(&self) -> bool {
        self.stage == Stage::Lost || (self.stage == Stage::Asked && !self.has_said && !self.session.is_open())
    }
}

impl AheadSend {
    /// Goes on with the stream of another connection, if there is one.
    fn follow(&mut self) {
        let mut state = lock(&self.state);
        if let Some(next) = state.next.take() {
            self.stream = next;
        }
        self.is_settled = state.stage == Stage::Settled;
    }
}

impl AsyncWrite for AheadSend {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, data: &[u8]) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        if !this.is_settled {
            this.follow();
        }
        if this.is_settled {
            return Pin::new(&mut this.stream).poll_write(cx, data);
        }
        let mut state = lock(&this.state);
        state.writer = Some(cx.waker().clone());
        if state.stage == Stage::Lost {
            return Poll::Pending;
        }
        match Pin::new(&mut this.stream).poll_write(cx, data) {
            Poll::Ready(Ok(len)) => {
                state.has_said |= len > 0;
                Poll::Ready(Ok(len))
            }
            Poll::Ready(Err(_)) if state.may_go_on() => Poll::Pending,
            other => other,
        }
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        // A stream of the tunnel holds nothing back.
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        this.follow();
        let mut state = lock(&this.state);
        state.has_ended = true;
        match Pin::new(&mut this.stream).poll_shutdown(cx) {
            Poll::Ready(Err(_)) if state.may_go_on() => Poll::Ready(Ok(())),
            other => other,
        }
    }
}

impl SendHalf for AheadSend {
    fn cut_off(&mut self) {
        self.follow();
        self.stream.cut_off();
    }
}

/// Why a flow was refused, once that is known.
pub type Refusal = Arc<OnceLock<OpenError>>;

type Waiting = Pin<Box<dyn Future<Output = Result<RecvStream, OpenError>> + Send>>;

/// The receiving half of a flow whose answer may still be on its way.
pub struct Answering {
    answer: Answer,
    refusal: Refusal,
}

enum Answer {
    Waited(Waiting),
    Yes(RecvStream),
    No(OpenError),
}

impl Answering {
    /// The answer comes of `waiting`.
    pub fn new(waiting: impl Future<Output = Result<RecvStream, OpenError>> + Send + 'static) -> Self {
        Self { answer: Answer::Waited(Box::pin(waiting)), refusal: Refusal::default() }
    }

    /// Where it will be found why the flow was refused.
    pub fn refusal(&self) -> Refusal {
        Arc::clone(&self.refusal)
    }
}

impl AsyncRead for Answering {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, out: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        if let Answer::Waited(waiting) = &mut this.answer {
            this.answer = match ready!(waiting.as_mut().poll(cx)) {
                Ok(recv) => Answer::Yes(recv),
                Err(error) => Answer::No(this.refusal.get_or_init(|| error).clone()),
            };
        }
        match &mut this.answer {
            Answer::Yes(recv) => Pin::new(recv).poll_read(cx, out),
            Answer::No(error) => Poll::Ready(Err(error.clone().into())),
            Answer::Waited(_) => Poll::Pending,
        }
    }
}

impl RecvHalf for Answering {
    fn cut_off(&mut self) {
        // One that waits stops its stream when it is dropped.
        if let Answer::Yes(recv) = &mut self.answer {
            recv.cut_off();
        }
    }
}
