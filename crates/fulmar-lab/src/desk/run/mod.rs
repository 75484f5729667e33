//! Doing what is in the queue, one run after the other.

mod agents;
mod means;
mod paths;
mod peer;
mod round;
mod transfer;
mod virtual_time;
mod watch;

use std::sync::atomic::{AtomicU32, Ordering};

use super::spec::{self, Transport};
use super::types::{DriverName, Order, Spec, Status};
pub(crate) use agents::{Agents, Member};
pub(crate) use means::Means;
use transfer::Halt;

/// Does what is in the queue.
#[derive(Debug)]
pub(crate) struct Runner {
    means: Means,
    /// Numbers for jobs, which no agent has seen before.
    next_job: AtomicU32,
}

impl Runner {
    pub(crate) fn new(means: Means) -> Self {
        Self { means, next_job: AtomicU32::new(1) }
    }

    /// Works for ever.
    pub(crate) async fn work(self) {
        loop {
            let Some(id) = self.means.board.take() else {
                self.means.board.work.notified().await;
                continue;
            };
            let (status, error) = match self.run(&id).await {
                Ok(()) => (Status::Done, None),
                Err(Halt::Stopped) => (Status::Stopped, None),
                Err(Halt::Failed(reason)) => (Status::Failed, Some(reason)),
            };
            self.means.board.finish(&id, status, error);
        }
    }

    async fn run(&self, id: &str) -> Result<(), Halt> {
        let spec =
            self.means.board.with(id, |record| record.spec.clone()).map_err(|refusal| refusal.message)?;
        if spec.driver == DriverName::Virtual {
            return virtual_time::run(&self.means.board, id, &spec).await;
        }
        for (transfer, flows) in rounds(&spec) {
            self.check_stop(id)?;
            let is_peer =
                |flow: &usize| matches!(spec::transport(&spec.transports[*flow]), Transport::Peer(_));
            if let Some(&flow) = flows.iter().find(|flow| is_peer(flow)) {
                peer::run(&self.means, id, &spec, flow, transfer).await?;
                continue;
            }
            let first_job = self.next_job.fetch_add(flows.len() as u32, Ordering::Relaxed);
            round::run(&self.means, id, &spec, transfer, &flows, first_job).await?;
        }
        Ok(())
    }

    fn check_stop(&self, id: &str) -> Result<(), Halt> {
        let is_stopped = self.means.board.with(id, |record| *record.stop.borrow());
        if is_stopped.unwrap_or(true) { Err(Halt::Stopped) } else { Ok(()) }
    }
}

/// What runs at a time: the number of the transfer, and the transports. In turn they alternate, so that a
/// machine that changes its mood is fair to all.
fn rounds(spec: &Spec) -> Vec<(u32, Vec<usize>)> {
    let flows = 0..spec.transports.len();
    let of_transfer = |transfer| match spec.order {
        Order::Together => vec![(transfer, flows.clone().collect())],
        Order::InTurn => flows.clone().map(|flow| (transfer, vec![flow])).collect(),
    };
    (0..spec.transfers).flat_map(of_transfer).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn transports_take_turns_or_go_together() {
        let mut spec = spec::tests::spec();
        spec.transfers = 2;
        assert_eq!(rounds(&spec), [(0, vec![0]), (0, vec![1]), (1, vec![0]), (1, vec![1])]);
        spec.order = Order::Together;
        assert_eq!(rounds(&spec), [(0, vec![0, 1]), (1, vec![0, 1])]);
    }
}
