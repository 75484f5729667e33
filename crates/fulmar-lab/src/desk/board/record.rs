//! One run, as it is in memory.

use std::path::Path as FilePath;
use std::sync::Arc;
use std::time::Instant;

use tokio::sync::watch;

use crate::desk::image::Picture;
use crate::desk::spec;
use crate::desk::types::{
    Amount, FlowState, FlowStatus, Kind, Path, Progress, Run, RunSummary, Sample, Spec, Status, Transfer,
    UnderWay,
};

/// Samples of a run that are kept one by one; after that only each tenth is.
const SAMPLES_MAX: usize = 150_000;
const THINNED: usize = 10;

/// A run.
#[derive(Debug)]
pub(crate) struct Record {
    pub(crate) summary: RunSummary,
    pub(crate) spec: Spec,
    pub(crate) transfers: Vec<Transfer>,
    pub(crate) flows: Vec<FlowState>,
    /// None if they are only on disk.
    samples: Option<Vec<Sample>>,
    skipped: usize,
    /// Samples that are on disk.
    pub(crate) samples_saved: usize,
    /// Transfers that are on disk.
    pub(crate) transfers_saved: usize,
    /// What each transport's receiver has of the picture.
    pub(crate) received: Vec<Vec<u8>>,
    pub(crate) picture: Option<Arc<Picture>>,
    /// Somebody wants it stopped.
    pub(crate) stop: watch::Sender<bool>,
    /// How the path is now.
    pub(crate) path: watch::Sender<Path>,
    began: Option<Instant>,
}

impl Record {
    pub(crate) fn new(id: String, created_unix_s: u64, spec: Spec, picture: Option<Arc<Picture>>) -> Self {
        let total = spec.transfers * spec.transports.len() as u32;
        let summary = RunSummary {
            id,
            title: spec.title.clone(),
            kind: spec.kind,
            driver: spec.driver,
            transports: spec.transports.clone(),
            status: Status::Queued,
            error: None,
            progress: Progress { total, ..Progress::default() },
            created_unix_s,
            steps: 0,
        };
        let mut record = Self::of_disk(summary, spec, Vec::new());
        record.samples = Some(Vec::new());
        if let Some(picture) = picture.filter(|_| record.spec.kind == Kind::Demo) {
            record.spec.amount = Amount::Bytes(picture.bytes.len() as u64);
            record.received = vec![Vec::new(); record.spec.transports.len()];
            record.picture = Some(picture);
        }
        let total_bytes = record.total_bytes();
        record.flows.iter_mut().for_each(|flow| flow.total_bytes = total_bytes);
        record
    }

    /// A run of an earlier time.
    pub(crate) fn of_disk(summary: RunSummary, spec: Spec, transfers: Vec<Transfer>) -> Self {
        let flows = (0..spec.transports.len()).map(|flow| {
            let last = transfers.iter().rfind(|transfer| transfer.flow == flow);
            FlowState {
                flow,
                transfer: last.map_or(0, |last| last.transfer),
                status: last
                    .map_or(FlowStatus::Under(UnderWay::Waiting), |last| FlowStatus::Ended(last.status)),
                received_bytes: last.map_or(0, |last| last.received_bytes),
                total_bytes: None,
                t: last.map_or(0.0, |last| last.time_s),
            }
        });
        Self {
            flows: flows.collect(),
            samples: None,
            skipped: 0,
            samples_saved: 0,
            transfers_saved: transfers.len(),
            received: Vec::new(),
            picture: None,
            stop: watch::Sender::new(false),
            path: watch::Sender::new(spec.path.clone()),
            began: None,
            summary,
            spec,
            transfers,
        }
    }

    /// Keeps the next bytes of the picture as a receiver has them; says whether they are no more than it has.
    pub(crate) fn take_in(&mut self, flow: usize, bytes: &[u8]) -> bool {
        let whole = self.picture.as_ref().map_or(0, |picture| picture.bytes.len());
        let Some(all) = self.received.get_mut(flow) else { return bytes.is_empty() };
        if all.len() + bytes.len() > whole {
            return false;
        }
        all.extend_from_slice(bytes);
        true
    }

    pub(crate) fn total_bytes(&self) -> Option<u64> {
        match self.spec.amount {
            Amount::Bytes(bytes) => Some(bytes),
            Amount::Seconds(_) => None,
        }
    }

    /// The summary with the time as it is now.
    pub(crate) fn summary_now(&self) -> RunSummary {
        let mut summary = self.summary.clone();
        if let (Some(began), Status::Running) = (self.began, summary.status) {
            let elapsed = began.elapsed().as_secs_f64();
            let Progress { done, total, .. } = summary.progress;
            let by_pace = (done > 0).then(|| elapsed / f64::from(done) * f64::from(total - done.min(total)));
            let by_plan = spec::seconds(&self.spec).map(|whole| (whole - elapsed).max(0.0));
            summary.progress.elapsed_s = elapsed;
            summary.progress.left_s = by_pace.or(by_plan);
        }
        summary
    }

    pub(crate) fn run(&self, folder: &FilePath) -> Run {
        Run {
            summary: self.summary_now(),
            spec: self.spec.clone(),
            transfers: self.transfers.clone(),
            statistics: crate::desk::statistics::of(&self.spec, &self.transfers),
            flows: self.flows.clone(),
            folder: folder.display().to_string(),
        }
    }

    pub(super) fn begin(&mut self) {
        self.began = Some(Instant::now());
        self.summary.status = Status::Running;
    }

    pub(super) fn finish(&mut self, status: Status, error: Option<String>) {
        let now = self.summary_now();
        self.summary.progress = Progress { left_s: None, ..now.progress };
        (self.summary.status, self.summary.error, self.summary.steps) = (status, error, 0);
    }

    pub(super) fn add_samples(&mut self, new: Vec<Sample>) {
        for sample in &new {
            if let Some(flow) = self.flows.get_mut(sample.flow) {
                (flow.transfer, flow.received_bytes, flow.t) =
                    (sample.transfer, sample.received_bytes, sample.t);
            }
        }
        let samples = self.samples.get_or_insert_default();
        for sample in new {
            self.skipped += 1;
            if samples.len() < SAMPLES_MAX || self.skipped.is_multiple_of(THINNED) {
                samples.push(sample);
            }
        }
    }

    pub(super) fn add_transfer(&mut self, transfer: Transfer) {
        if let Some(flow) = self.flows.get_mut(transfer.flow) {
            flow.status = FlowStatus::Ended(transfer.status);
            (flow.transfer, flow.received_bytes, flow.t) =
                (transfer.transfer, transfer.received_bytes, transfer.time_s);
        }
        self.summary.progress.done += 1;
        self.transfers.push(transfer);
    }

    /// Its samples, if they are in memory.
    pub(crate) fn samples(&self) -> Option<&[Sample]> {
        self.samples.as_deref()
    }

    pub(super) fn is_held(&self) -> bool {
        self.samples.is_some() && self.summary.status.is_over()
    }

    /// Samples and pictures are taken out of memory.
    pub(super) fn let_go(&mut self) {
        self.samples = None;
        self.let_go_picture();
    }

    pub(super) fn let_go_picture(&mut self) {
        self.received = Vec::new();
        self.picture = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::desk::image;

    /// An agent may be changed at will: what it sends back has an end.
    #[test]
    fn no_more_of_a_picture_is_kept_than_it_has() {
        let picture = Arc::new(image::drawn());
        let whole = picture.bytes.len();
        let spec = Spec { kind: Kind::Demo, ..spec::tests::spec() };
        let mut record = Record::new("1".into(), 0, spec, Some(picture));
        assert!(record.take_in(0, &vec![0; whole - 1]) && record.take_in(0, &[0]));
        assert!(!record.take_in(0, &[0]) && record.received[0].len() == whole);
        assert!(record.take_in(1, &[0]), "others are not concerned");
        assert!(!record.take_in(9, &[0]), "there is no such transport");
    }
}
