//! Something asked for that is not there yet: a future that is kept until it is.

use std::pin::Pin;
use std::sync::{Mutex, PoisonError};
use std::task::{Context, Poll, Waker};

type Asked<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// A future, or none. What it gives to one that gave up waiting is the next one's.
pub(crate) struct Pending<T>(Mutex<Option<Asked<T>>>);

impl<T> Default for Pending<T> {
    fn default() -> Self {
        Self(Mutex::new(None))
    }
}

impl<T> Pending<T> {
    /// What the future gives, one made by `begin` if there is none; `None` if that is later, when `waker` is
    /// woken.
    pub(crate) fn poll(&self, waker: &Waker, begin: impl FnOnce() -> Asked<T>) -> Option<T> {
        let mut asked = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let result = poll_once(asked.get_or_insert_with(begin).as_mut(), waker);
        if result.is_some() {
            *asked = None;
        }
        result
    }

    /// Whether what was begun before is not over; `waker` is woken when it is.
    pub(crate) fn is_pending(&self, waker: &Waker) -> bool {
        let mut asked = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let is_pending = asked.as_mut().is_some_and(|asked| poll_once(asked.as_mut(), waker).is_none());
        if !is_pending {
            *asked = None;
        }
        is_pending
    }

    /// Keeps what was begun.
    pub(crate) fn keep(&self, begun: Asked<T>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(begun);
    }

    /// What was asked for before and not taken: to be waited for before anything new.
    pub(crate) fn take(&self) -> Option<Asked<T>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

/// What a future gives now.
pub(crate) fn poll_once<F: Future + ?Sized>(future: Pin<&mut F>, waker: &Waker) -> Option<F::Output> {
    match future.poll(&mut Context::from_waker(waker)) {
        Poll::Ready(value) => Some(value),
        Poll::Pending => None,
    }
}
