//! The state that every page sees: runs and their samples, agents, the queue. Whatever changes it tells all
//! pages.
//!
//! An event is written once, however many pages listen. A page that does not keep up gets the state anew.

use std::collections::{BTreeMap, VecDeque};
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use serde::Serialize;
use tokio::sync::{Notify, broadcast};

use super::image::{self, Picture};
use super::path;
use super::store::Store;
use super::types::{
    Agent, Driver, Kind, Path, PathChange, Refusal, Run, RunSummary, Sample, Spec, State, Status, Transfer,
};

pub(super) mod record;

pub(crate) use record::Record;

/// Runs that a state shows.
const RUNS_SHOWN: usize = 200;
/// Runs whose samples are in memory; those of others are read from disk when asked for.
const RUNS_IN_MEMORY: usize = 12;
/// Of these, the ones whose received pictures are as well, and bytes of one's.
const PICTURES_IN_MEMORY: usize = 3;
const RECEIVED_BYTES_MAX: usize = 128 << 20;
/// Runs that wait.
const QUEUE_MAX: usize = 100;
/// Events a page may be behind.
const EVENTS_MAX: usize = 512;

/// What pages are told: a name and a line of JSON.
#[derive(Clone, Debug)]
pub(crate) struct Event {
    pub(crate) name: &'static str,
    pub(crate) data: String,
}

/// The state.
#[derive(Debug)]
pub struct Board {
    inner: Mutex<Inner>,
    events: broadcast::Sender<Arc<Event>>,
    /// Something was put into the queue.
    pub(crate) work: Notify,
    watchers: AtomicUsize,
    store: Store,
    mode: &'static str,
}

#[derive(Debug, Default)]
struct Inner {
    runs: BTreeMap<String, Record>,
    queue: VecDeque<String>,
    running: Option<String>,
    /// As of this moment.
    agents: Option<(Instant, Vec<Agent>)>,
    drivers: Vec<Driver>,
    pictures: Vec<Arc<Picture>>,
    last_id: u32,
}

impl Board {
    /// With the runs that are on disk.
    ///
    /// # Errors
    /// If the folder cannot be used.
    pub fn open(folder: PathBuf, mode: &'static str, drivers: Vec<Driver>) -> Result<Arc<Self>, String> {
        let store = Store::open(folder)?;
        let runs = store.all().into_iter().map(|record| (record.summary.id.clone(), record)).collect();
        let inner = Inner { runs, drivers, pictures: vec![Arc::new(image::drawn())], ..Inner::default() };
        Ok(Arc::new(Self {
            inner: Mutex::new(inner),
            events: broadcast::channel(EVENTS_MAX).0,
            work: Notify::new(),
            watchers: AtomicUsize::new(0),
            store,
            mode,
        }))
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What is on disk.
    pub(crate) fn store(&self) -> &Store {
        &self.store
    }

    /// Events from now on.
    pub(crate) fn listen(self: &Arc<Self>) -> Watcher {
        self.watchers.fetch_add(1, Ordering::Relaxed);
        // The others learn that there is one more.
        self.tell_state();
        Watcher { events: self.events.subscribe(), board: self.clone(), needs_state: true }
    }

    pub(crate) fn tell(&self, name: &'static str, data: &impl Serialize) {
        // Nobody may be listening; and what cannot be written as JSON is nothing that a page could show.
        if self.events.receiver_count() > 0
            && let Ok(data) = serde_json::to_string(data)
        {
            let _ = self.events.send(Arc::new(Event { name, data }));
        }
    }

    pub(crate) fn tell_state(&self) {
        if self.events.receiver_count() > 0 {
            self.tell("state", &self.state());
        }
    }

    pub(crate) fn state(&self) -> State {
        let inner = self.lock();
        State {
            version: env!("CARGO_PKG_VERSION"),
            mode: self.mode,
            drivers: inner.drivers.clone(),
            agents: inner.agents.as_ref().map(aged).unwrap_or_default(),
            runs: inner.runs.values().rev().take(RUNS_SHOWN).map(Record::summary_now).collect(),
            running: inner.running.clone(),
            queue: inner.queue.iter().cloned().collect(),
            results_folder: self.store.folder().display().to_string(),
            watchers: self.watchers.load(Ordering::Relaxed),
        }
    }

    pub(crate) fn set_agents(&self, agents: Vec<Agent>) {
        self.lock().agents = Some((Instant::now(), agents));
        self.tell_state();
    }

    pub(crate) fn drivers(&self) -> Vec<Driver> {
        self.lock().drivers.clone()
    }

    pub(crate) fn summaries(&self) -> Vec<RunSummary> {
        self.lock().runs.values().rev().map(Record::summary_now).collect()
    }

    /// Puts a run into the queue.
    pub(crate) fn add(&self, spec: Spec) -> Result<Run, Refusal> {
        let mut inner = self.lock();
        if let Some(driver) =
            inner.drivers.iter().find(|driver| driver.name == spec.driver && !driver.available)
        {
            return Err(Refusal::impossible("driver", driver.missing.clone()));
        }
        if inner.queue.len() >= QUEUE_MAX {
            return Err(Refusal::new(409, format!("{QUEUE_MAX} runs are waiting")));
        }
        let picture = inner.pictures.iter().find(|picture| picture.image.id == spec.image).cloned();
        if spec.kind == Kind::Demo {
            let Some(picture) = &picture else {
                return Err(Refusal::impossible("image", format!("there is no picture '{}'", spec.image)));
            };
            if picture.bytes.len() * spec.transports.len() > RECEIVED_BYTES_MAX {
                return Err(Refusal::impossible("image", "so large a picture goes with fewer transports"));
            }
        }
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
        let id = loop {
            inner.last_id += 1;
            let id = format!("{}-{:03}", super::store::calendar(now), inner.last_id);
            // The program may have been started twice in a second.
            if !inner.runs.contains_key(&id) {
                break id;
            }
        };
        let record = Record::new(id.clone(), now, spec, picture);
        self.store.begin(&record).map_err(|reason| Refusal::new(500, reason))?;
        let run = record.run(&self.store.run_folder(&id));
        inner.runs.insert(id.clone(), record);
        inner.queue.push_back(id);
        drop(inner);
        self.tell_state();
        self.work.notify_one();
        Ok(run)
    }

    /// The next run of the queue, which is now under way.
    pub(crate) fn take(&self) -> Option<String> {
        let mut inner = self.lock();
        if inner.running.is_some() {
            return None;
        }
        let id = inner.queue.pop_front()?;
        inner.running = Some(id.clone());
        if let Some(record) = inner.runs.get_mut(&id) {
            record.begin();
        }
        drop(inner);
        self.tell_state();
        Some(id)
    }

    /// The run under way has ended so.
    pub(crate) fn finish(&self, id: &str, status: Status, error: Option<String>) {
        let mut inner = self.lock();
        inner.running = None;
        if let Some(record) = inner.runs.get_mut(id) {
            record.finish(status, error);
            if let Err(reason) = self.store.save(record) {
                tracing::warn!("{id} cannot be written: {reason}");
            }
        }
        let held = inner.runs.values_mut().rev().filter(|record| record.is_held());
        held.skip(RUNS_IN_MEMORY).for_each(Record::let_go);
        let shown = inner.runs.values_mut().rev().filter(|record| record.picture.is_some());
        shown
            .filter(|record| record.summary.status.is_over())
            .skip(PICTURES_IN_MEMORY)
            .for_each(Record::let_go_picture);
        drop(inner);
        self.tell_run(id);
        self.tell_state();
    }

    /// Stops a run, or takes it from the queue.
    pub(crate) fn stop(&self, id: &str) -> Result<RunSummary, Refusal> {
        let mut inner = self.lock();
        let is_waiting = inner.queue.iter().any(|waiting| waiting == id);
        inner.queue.retain(|waiting| waiting != id);
        let record = inner.runs.get_mut(id).ok_or_else(|| unknown(id))?;
        if record.summary.status.is_over() {
            return Err(Refusal::new(409, "this run is over"));
        }
        record.stop.send_replace(true);
        if is_waiting {
            record.finish(Status::Stopped, None);
            let _ = self.store.save(record);
        }
        let summary = record.summary_now();
        drop(inner);
        self.tell_run(id);
        if is_waiting {
            self.tell_state();
        }
        Ok(summary)
    }

    /// Forgets a run, also on disk.
    pub(crate) fn remove(&self, id: &str) -> Result<(), Refusal> {
        let mut inner = self.lock();
        let record = inner.runs.get(id).ok_or_else(|| unknown(id))?;
        if !record.summary.status.is_over() {
            return Err(Refusal::new(409, "this run is not over: stop it first"));
        }
        inner.runs.remove(id);
        self.store.remove(id).map_err(|reason| Refusal::new(500, reason))?;
        drop(inner);
        self.tell_state();
        Ok(())
    }

    /// Moves the path of the run under way.
    pub(crate) fn steer(&self, id: &str, change: &PathChange) -> Result<Path, Refusal> {
        let mut inner = self.lock();
        let is_running = inner.running.as_deref() == Some(id);
        let drivers = inner.drivers.clone();
        let record = inner.runs.get_mut(id).ok_or_else(|| unknown(id))?;
        let is_steerable = drivers.iter().any(|driver| driver.name == record.spec.driver && driver.steerable);
        if !is_running || !is_steerable {
            let why = if is_running { "cannot be moved: it is computed at once" } else { "is not under way" };
            return Err(Refusal::new(409, format!("this run {why}")));
        }
        let path = path::changed(&record.spec.path, change)?;
        record.spec.path = path.clone();
        record.path.send_replace(path.clone());
        let t = record.flows.iter().map(|flow| flow.t).fold(0.0, f64::max);
        drop(inner);
        self.tell("path", &serde_json::json!({ "run": id, "path": path, "t": t }));
        Ok(path)
    }

    /// Something about a run, as it is now.
    pub(crate) fn with<T>(&self, id: &str, look: impl FnOnce(&Record) -> T) -> Result<T, Refusal> {
        self.lock().runs.get(id).map(look).ok_or_else(|| unknown(id))
    }

    /// Changes a run; pages are told by whoever calls.
    pub(crate) fn update(&self, id: &str, change: impl FnOnce(&mut Record)) {
        if let Some(record) = self.lock().runs.get_mut(id) {
            change(record);
        }
    }

    pub(crate) fn tell_run(&self, id: &str) {
        if let Ok(summary) = self.with(id, Record::summary_now) {
            self.tell("run", &summary);
        }
    }

    /// New samples of a run, in the order of time.
    pub(crate) fn add_samples(&self, id: &str, samples: Vec<Sample>) {
        if samples.is_empty() {
            return;
        }
        self.tell("samples", &serde_json::json!({ "run": id, "samples": samples }));
        self.update(id, |record| record.add_samples(samples));
    }

    /// A transfer has ended.
    pub(crate) fn add_transfer(&self, id: &str, transfer: Transfer) {
        self.tell("transfer", &serde_json::json!({ "run": id, "transfer": transfer }));
        let mut inner = self.lock();
        let Some(record) = inner.runs.get_mut(id) else { return };
        record.add_transfer(transfer);
        if let Err(reason) = self.store.append(record) {
            tracing::warn!("{id} cannot be written: {reason}");
        }
        let statistics = super::statistics::of(&record.spec, &record.transfers);
        drop(inner);
        self.tell("statistics", &serde_json::json!({ "run": id, "statistics": statistics }));
        self.tell_run(id);
    }

    /// Pictures that can be sent.
    pub(crate) fn pictures(&self) -> Vec<Arc<Picture>> {
        self.lock().pictures.clone()
    }

    /// Takes a picture in; the oldest but the drawn one goes when there are too many.
    pub(crate) fn add_picture(&self, picture: Picture) -> Arc<Picture> {
        let picture = Arc::new(picture);
        let mut inner = self.lock();
        inner.pictures.retain(|known| known.image.id != picture.image.id);
        if inner.pictures.len() >= image::KEPT_MAX {
            inner.pictures.remove(1);
        }
        inner.pictures.push(picture.clone());
        picture
    }
}

/// Agents with their times as they are now.
fn aged((at, agents): &(Instant, Vec<Agent>)) -> Vec<Agent> {
    let age_s = at.elapsed().as_secs_f64();
    agents.iter().map(|agent| Agent { since_s: agent.since_s + age_s, ..agent.clone() }).collect()
}

fn unknown(id: &str) -> Refusal {
    Refusal::new(404, format!("there is no run '{id}'"))
}

/// A page that listens.
pub(crate) struct Watcher {
    events: broadcast::Receiver<Arc<Event>>,
    board: Arc<Board>,
    /// At first, and whenever it has missed something.
    needs_state: bool,
}

impl Watcher {
    /// The next event.
    pub(crate) async fn next(&mut self) -> Option<Arc<Event>> {
        if !self.needs_state {
            match self.events.recv().await {
                Ok(event) => return Some(event),
                Err(broadcast::error::RecvError::Lagged(_)) => self.events = self.events.resubscribe(),
                Err(broadcast::error::RecvError::Closed) => return None,
            }
        }
        self.needs_state = false;
        let data = serde_json::to_string(&self.board.state()).ok()?;
        Some(Arc::new(Event { name: "state", data }))
    }
}

impl Drop for Watcher {
    fn drop(&mut self) {
        self.board.watchers.fetch_sub(1, Ordering::Relaxed);
        self.board.tell_state();
    }
}
