//! Whose turn it is: the connections of an endpoint send one after the other.
//!
//! A runtime runs a task again before those that wait in another of its queues, and what receives only behind
//! all that can run. Of a thousand connections with something to send, a few then had most of the turns, and
//! ACKs waited until all had had theirs. So few connections' tasks may run at once, as many as keep the
//! threads busy; the others wait here, first come, first served. The runtime's queues stay short, and an ACK
//! is soon heard.
//!
//! A turn begins with [`Turns::begin`] and ends with [`Turns::end`], both in one poll of the task; in between
//! lie nothing but one or two batches. Whoever would wake a task from outside asks [`Turns::wake`] to do it:
//! it saves the task a poll that only finds out that others come first.
//!
//! Invariant: nobody waits while fewer than `at_once` have a turn.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU8, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Waker;

/// Turns at once for each thread of the runtime: the next ones are woken while one runs.
const AT_ONCE_PER_THREAD: usize = 4;

/// Where a connection's task stands. Only changed under the lock of [`Turns`].
#[derive(Debug, Default)]
pub(crate) struct Place(AtomicU8);

#[derive(Copy, Clone, Debug, PartialEq, Eq)]
enum Stand {
    Outside,
    /// In the queue.
    Waiting,
    /// It was woken to have its turn.
    Granted,
    Working,
    /// Its task is over.
    Gone,
}

impl Place {
    fn stand(&self) -> Stand {
        let all = [Stand::Outside, Stand::Waiting, Stand::Granted, Stand::Working];
        all.get(usize::from(self.0.load(Relaxed))).copied().unwrap_or(Stand::Gone)
    }

    fn set(&self, stand: Stand) {
        self.0.store(stand as u8, Relaxed);
    }
}

/// The turns of an endpoint's connections, each of which is a `C` with a [`Place`].
#[derive(Debug)]
pub(crate) struct Turns<C> {
    queue: Mutex<Queue<C>>,
}

#[derive(Debug)]
struct Queue<C> {
    /// Turns that may be granted beside those that are.
    free: usize,
    waiting: VecDeque<(Arc<C>, Waker)>,
}

impl<C: AsRef<Place>> Turns<C> {
    /// For tasks that `threads` run.
    pub(crate) fn new(threads: usize) -> Self {
        Self { queue: Mutex::new(Queue { free: threads * AT_ONCE_PER_THREAD, waiting: VecDeque::new() }) }
    }

    /// Something has happened to a connection whose task is to be woken by `task`: at once, or when it is its
    /// turn.
    pub(crate) fn wake(&self, connection: &Arc<C>, task: Waker) {
        let place = C::as_ref(connection);
        let mut queue = self.queue();
        let woken = match place.stand() {
            Stand::Outside => queue.ask(connection, task),
            // It may have looked already.
            Stand::Working => Some(task),
            Stand::Waiting | Stand::Granted | Stand::Gone => None,
        };
        drop(queue);
        woken.into_iter().for_each(Waker::wake);
    }

    /// A task was polled: whether it may go on now. If not it will be woken by `task`.
    pub(crate) fn begin(&self, connection: &Arc<C>, task: &Waker) -> bool {
        let place = C::as_ref(connection);
        let mut queue = self.queue();
        let is_granted = match place.stand() {
            Stand::Granted => true,
            Stand::Outside => queue.ask(connection, task.clone()).is_some(),
            Stand::Waiting | Stand::Working | Stand::Gone => false,
        };
        if is_granted {
            place.set(Stand::Working);
        }
        is_granted
    }

    /// A turn is over. If it was too short, `again` wakes the task for another one when all that wait have
    /// had theirs; false if nobody waits, so that it does not wait here either.
    pub(crate) fn end(&self, connection: &Arc<C>, again: Option<&Waker>) -> bool {
        let mut queue = self.queue();
        C::as_ref(connection).set(Stand::Outside);
        let again = again.filter(|_| !queue.waiting.is_empty());
        if let Some(task) = again {
            queue.wait(connection, task.clone());
        }
        queue.free += 1;
        Self::wake_next(queue);
        again.is_some()
    }

    /// A task is over, whatever it was about.
    pub(crate) fn leave(&self, connection: &C) {
        let place = connection.as_ref();
        let mut queue = self.queue();
        let stand = place.stand();
        place.set(Stand::Gone);
        if matches!(stand, Stand::Granted | Stand::Working) {
            queue.free += 1;
        }
        Self::wake_next(queue);
    }

    /// Wakes whose turn it is, without the lock.
    fn wake_next(mut queue: MutexGuard<'_, Queue<C>>) {
        let next = queue.next();
        drop(queue);
        next.into_iter().for_each(Waker::wake);
    }

    fn queue(&self) -> MutexGuard<'_, Queue<C>> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<C: AsRef<Place>> Queue<C> {
    /// Grants a turn, and gives the waker back, or lets wait.
    fn ask(&mut self, connection: &Arc<C>, task: Waker) -> Option<Waker> {
        if self.free == 0 {
            self.wait(connection, task);
            return None;
        }
        self.free -= 1;
        C::as_ref(connection).set(Stand::Granted);
        Some(task)
    }

    fn wait(&mut self, connection: &Arc<C>, task: Waker) {
        C::as_ref(connection).set(Stand::Waiting);
        self.waiting.push_back((connection.clone(), task));
    }

    /// Who is to be woken, if a turn is free.
    fn next(&mut self) -> Option<Waker> {
        while self.free > 0 {
            let (connection, task) = self.waiting.pop_front()?;
            let place = C::as_ref(&connection);
            if place.stand() == Stand::Waiting {
                place.set(Stand::Granted);
                self.free -= 1;
                return Some(task);
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicUsize;
    use std::task::Wake;

    /// A task: its place, and how often it was woken.
    #[derive(Debug, Default)]
    struct Task {
        place: Place,
        woken: AtomicUsize,
    }

    impl AsRef<Place> for Task {
        fn as_ref(&self) -> &Place {
            &self.place
        }
    }

    impl Wake for Task {
        fn wake(self: Arc<Self>) {
            self.woken.fetch_add(1, Relaxed);
        }
    }

    impl Task {
        fn waker(self: &Arc<Self>) -> Waker {
            self.clone().into()
        }

        fn woken(&self) -> usize {
            self.woken.load(Relaxed)
        }
    }

    fn tasks<const N: usize>() -> [Arc<Task>; N] {
        std::array::from_fn(|_| Arc::default())
    }

    #[test]
    fn the_first_that_come_have_a_turn_and_the_others_follow_in_order() {
        let turns = Turns::new(1);
        let all = tasks::<{ AT_ONCE_PER_THREAD + 2 }>();
        all.iter().for_each(|task| turns.wake(task, task.waker()));
        let woken = || all.each_ref().map(|task| task.woken());
        assert_eq!(woken(), [1, 1, 1, 1, 0, 0]);
        assert!(turns.begin(&all[2], &all[2].waker()));
        // It has more to send: behind those that wait.
        assert!(turns.end(&all[2], Some(&all[2].waker())));
        assert_eq!(woken(), [1, 1, 1, 1, 1, 0]);
        // Who has its turn, or waits for it, is not woken for it twice.
        all.iter().for_each(|task| turns.wake(task, task.waker()));
        assert_eq!(woken(), [1, 1, 1, 1, 1, 0]);
        for (task, next) in [(0, 5), (1, 2)] {
            assert!(turns.begin(&all[task], &all[task].waker()));
            assert!(!turns.end(&all[task], None));
            assert_eq!(all[next].woken(), if next == 2 { 2 } else { 1 });
        }
        // Nobody waits any more, so nobody has to wait.
        assert!(turns.begin(&all[3], &all[3].waker()));
        assert!(!turns.end(&all[3], Some(&all[3].waker())));
    }

    #[test]
    fn a_task_that_is_polled_by_others_waits_as_well() {
        let turns = Turns::new(1);
        let all = tasks::<{ AT_ONCE_PER_THREAD + 1 }>();
        let begun = all.each_ref().map(|task| turns.begin(task, &task.waker()));
        assert_eq!(begun, [true, true, true, true, false]);
        // In the middle of a turn it may have looked already.
        turns.wake(&all[0], all[0].waker());
        assert_eq!(all[0].woken(), 1);
        assert!(!turns.begin(&all[4], &all[4].waker()), "it is not its turn yet");
        turns.end(&all[1], None);
        assert_eq!(all[4].woken(), 1);
        assert!(turns.begin(&all[4], &all[4].waker()));
    }

    #[test]
    fn a_task_that_is_over_keeps_no_turn() {
        let turns = Turns::new(1);
        let all = tasks::<{ 2 * AT_ONCE_PER_THREAD + 1 }>();
        all.iter().for_each(|task| turns.wake(task, task.waker()));
        let (granted, waiting) = all.split_at(AT_ONCE_PER_THREAD);
        let (last, gone) = waiting.split_last().unwrap();
        gone.iter().for_each(|task| turns.leave(task));
        assert_eq!(last.woken(), 0);
        turns.leave(&granted[0]);
        assert_eq!((last.woken(), gone.iter().map(|task| task.woken()).sum::<usize>()), (1, 0));
        turns.wake(&granted[0], granted[0].waker());
        assert_eq!(granted[0].woken(), 1, "there is nobody to wake");
        assert!(turns.begin(last, &last.waker()));
        assert!(!turns.end(last, None));
        assert_eq!(turns.queue().free, 1);
    }
}
