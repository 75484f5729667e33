//! Something asked for that is not there yet: a future that is kept until it is, and asked again at each
//! call.

use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use crate::code::{FUL_WOULDBLOCK, Outcome};

/// A future, or none.
pub(crate) struct Pending<T>(Option<Pin<Box<dyn Future<Output = T> + Send>>>);

impl<T> Default for Pending<T> {
    fn default() -> Self {
        Self(None)
    }
}

impl<T> fmt::Debug for Pending<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_some() { "Pending" } else { "Idle" })
    }
}

impl<T> Pending<T> {
    /// What the future gives, one made by `begin` if there is none; FUL_WOULDBLOCK if that is later, when
    /// `waker` is woken.
    pub(crate) fn poll<F>(&mut self, waker: &Waker, begin: impl FnOnce() -> F) -> Outcome<T>
    where
        F: Future<Output = T> + Send + 'static,
    {
        let future = self.0.get_or_insert_with(|| Box::pin(begin()));
        let result = poll_once(future.as_mut(), waker);
        if result.is_ok() {
            self.0 = None;
        }
        result
    }
}

/// What a future gives now, or FUL_WOULDBLOCK.
pub(crate) fn poll_once<F: Future + ?Sized>(future: Pin<&mut F>, waker: &Waker) -> Outcome<F::Output> {
    match future.poll(&mut Context::from_waker(waker)) {
        Poll::Ready(value) => Ok(value),
        Poll::Pending => Err(FUL_WOULDBLOCK),
    }
}
