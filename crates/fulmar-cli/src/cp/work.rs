//! Work that may block: hashing, reading, writing. It runs on threads of its own, and holds one only while it
//! works: nothing here waits for a peer. What one client makes a server do at once is bounded.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;

use tokio::sync::Semaphore;
use tokio::task::{JoinError, JoinHandle};

use super::error::{FileCode, FileError, TransferError};

tokio::task_local! {
    /// The share in the threads that the client of this task has; tasks without a client have no bound.
    pub static SHARE: Arc<Semaphore>;
}

/// Runs file work where it may block.
pub async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, FileError> + Send + 'static,
) -> Result<T, TransferError> {
    finished(begin(work).await).await
}

/// Begins file work, once this client's share allows it; it goes on by itself.
pub async fn begin<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> JoinHandle<T> {
    let permit = match SHARE.try_with(Arc::clone) {
        // Nobody closes it.
        Ok(share) => share.acquire_owned().await.ok(),
        Err(_) => None,
    };
    tokio::task::spawn_blocking(move || {
        let result = work();
        drop(permit);
        result
    })
}

/// What came of file work.
pub async fn finished<T>(work: JoinHandle<Result<T, FileError>>) -> Result<T, TransferError> {
    Ok(work.await.map_err(panicked)??)
}

/// Work that panicked: a mistake of this program, and no reason to believe that the connection is at fault.
pub fn panicked(error: JoinError) -> FileError {
    let why =
        error.try_into_panic().map_or_else(|cancelled| cancelled.to_string(), |panic| words_of(&*panic));
    mistake(&why)
}

/// `future`, whose panic becomes an error that can be told to the other side.
pub async fn caught<T>(future: impl Future<Output = Result<T, TransferError>>) -> Result<T, TransferError> {
    let mut future = pin!(future);
    std::future::poll_fn(|cx| {
        // A future that has panicked is not polled again.
        let polled = catch_unwind(AssertUnwindSafe(|| future.as_mut().poll(cx)));
        polled.unwrap_or_else(|panic| Poll::Ready(Err(mistake(&words_of(&*panic)).into())))
    })
    .await
}

fn mistake(why: &str) -> FileError {
    FileError::new(FileCode::Io, format!("a mistake in this program: {why}"))
}

fn words_of(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("no reason given")
        .to_owned()
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::time::Duration;

    use super::*;

    #[tokio::test]
    async fn a_client_has_so_many_threads_and_no_more() {
        let share = Arc::new(Semaphore::new(2));
        let (now, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let mut running = tokio::task::JoinSet::new();
        for _ in 0..10 {
            let (now, most) = (Arc::clone(&now), Arc::clone(&most));
            running.spawn(SHARE.scope(Arc::clone(&share), async move {
                let work = move || {
                    most.fetch_max(now.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                    std::thread::sleep(Duration::from_millis(5));
                    now.fetch_sub(1, Ordering::SeqCst);
                    Ok(())
                };
                blocking(work).await
            }));
        }
        while let Some(done) = running.join_next().await {
            done.unwrap().unwrap();
        }
        assert!((1..=2).contains(&most.load(Ordering::SeqCst)), "{most:?}");
        assert_eq!(share.available_permits(), 2);
    }

    #[tokio::test]
    async fn a_panic_is_a_mistake_and_no_lost_connection() {
        let on_a_thread = blocking(|| -> Result<(), _> { panic!("there") }).await.unwrap_err();
        let in_a_task = caught::<()>(async { panic!("here: {}", 1) }).await.unwrap_err();
        for (error, words) in [(on_a_thread, "there"), (in_a_task, "here: 1")] {
            assert!(matches!(&error, TransferError::Local(e) if e.text.contains(words)), "{error:?}");
        }
    }
}
