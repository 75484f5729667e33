//! One run over the course: a server, a relay, a client, a file.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use fulmar_net::LinkStats;
use serde_json::json;

use super::course::Course;
use super::display::{Display, Sample};
use super::test_path::{Middle, TestPath};
use crate::cp::job::{Bound, Job};
use crate::cp::plan::{Direction, Plan};
use crate::cp::progress::Progress;
use crate::cp::server::Served;
use crate::exit::Failure;
use crate::reach::private::{self, Keys};
use crate::session::Session;
use crate::units;

/// How often the display is fed.
pub const SAMPLE_INTERVAL: Duration = Duration::from_millis(250);

/// How far one sender came.
#[derive(Debug)]
pub struct Run {
    /// Who sent.
    pub profile: String,
    /// Delivered to the server's disk.
    pub bytes: u64,
    /// How long it took, or had.
    pub time: Duration,
    /// Of the whole file, if it arrived, in hexadecimal.
    pub blake3: Option<String>,
    /// What the sender has to say of itself.
    pub sender: serde_json::Value,
    /// What the path did.
    pub forward: LinkStats,
}

impl Course {
    /// Copies the file over a path with one profile, for at most so long.
    pub async fn run(
        &self,
        path: TestPath,
        profile: &str,
        time_max: Option<Duration>,
        display: &Display,
        folder: &Path,
    ) -> Result<Run, Failure> {
        std::fs::create_dir(folder).map_err(|e| Failure::File(format!("{}: {e}", folder.display())))?;
        let delivered = Arc::new(Progress::default());
        let served = Arc::new(Served::new(folder, false)?.with_progress(&delivered));
        let keys = Keys::generate();
        let TestPath { server, client, target, middle } = path;
        let listener = private::listen(&keys, server)?;
        let serving = tokio::spawn(async move {
            let Some(incoming) = listener.next().await else { return };
            if let Some(session) = incoming.await {
                crate::serve::serve(&served, session, |_, _| {}).await;
            }
        });

        let session = private::connect(&keys, client, target, profile).await?;
        let file = std::slice::from_ref(&self.file);
        let plan = Plan::up(&session, file, b"copy", false).await.map_err(|e| session.explain(e))?;
        let mut job = Job::new(Direction::Up, plan, &Arc::default());
        let begin = Instant::now();
        let watched = Watched { session: &session, middle: &*middle, delivered: &delivered, begin };
        let result = self.copy(&mut job, profile, time_max, display, &watched).await;
        let time = begin.elapsed();
        let bytes = delivered.present_bytes.load(Ordering::Relaxed);
        let sender = serde_json::to_value(session.wire_stats()).unwrap_or_default();
        session.abandon();
        serving.abort();
        let forward = middle.stop()?;
        result?;
        let blake3 = match job.done.first() {
            Some((_, outcome)) => Some(verify(&folder.join("copy"), &outcome.hash)?),
            None => None,
        };
        let run = Run { profile: profile.to_owned(), bytes, time, blake3, sender, forward };
        display.end(profile, &run.words());
        Ok(run)
    }

    async fn copy(
        &self,
        job: &mut Job,
        profile: &str,
        time_max: Option<Duration>,
        display: &Display,
        watched: &Watched<'_>,
    ) -> Result<(), Failure> {
        let end = tokio::time::sleep(time_max.unwrap_or(Duration::from_secs(u32::MAX.into())));
        let mut end = std::pin::pin!(end);
        let mut ticks = tokio::time::interval(SAMPLE_INTERVAL);
        let result = {
            let mut work = std::pin::pin!(job.work(watched.session, Bound::files(1)));
            loop {
                tokio::select! {
                    result = &mut work => break result,
                    () = &mut end => break Ok(()),
                    _ = ticks.tick() => display.show(&watched.sample(profile, self.file_bytes, time_max)),
                }
            }
        };
        result.map_err(|e| watched.session.explain(e))?;
        job.verdict().map_or(Ok(()), Err)
    }
}

/// What is looked at while a run goes on.
#[derive(Debug)]
struct Watched<'a> {
    session: &'a Session,
    middle: &'a dyn Middle,
    delivered: &'a Progress,
    begin: Instant,
}

impl Watched<'_> {
    fn sample(&self, profile: &str, file_bytes: u64, time_max: Option<Duration>) -> Sample {
        let wire = self.session.wire_stats();
        let forward = self.middle.forward();
        let share = |part: u64, whole: u64| if whole == 0 { 0.0 } else { 100.0 * part as f64 / whole as f64 };
        Sample {
            profile: profile.to_owned(),
            elapsed: self.begin.elapsed(),
            time_max,
            bytes: self.delivered.present_bytes.load(Ordering::Relaxed),
            file_bytes,
            rtt_ms: wire.rtt_ms,
            wire_loss_percent: share(forward.lost.packets, forward.offered.packets),
            queue_drops: forward.dropped.packets,
            extra_percent: ("repair", share(wire.repair_symbols, wire.symbols)),
        }
    }
}

impl Run {
    pub(super) fn goodput_mbps(&self) -> f64 {
        units::mbps(self.bytes, self.time)
    }

    /// What stays when it is over.
    pub fn words(&self) -> String {
        let rate = units::rate(self.goodput_mbps());
        format!("{} in {}, {rate}", units::bytes(self.bytes), units::duration(self.time))
    }

    pub(super) fn json(&self, limit_mbps: f64) -> serde_json::Value {
        let forward = &self.forward;
        json!({
            "profile": self.profile,
            "bytes": self.bytes,
            "seconds": self.time.as_secs_f64(),
            "goodput_mbps": self.goodput_mbps(),
            "share_of_limit": self.goodput_mbps() / limit_mbps,
            "is_complete": self.blake3.is_some(),
            "blake3": self.blake3,
            "path": {
                "offered_packets": forward.offered.packets,
                "lost_packets": forward.lost.packets,
                "queue_drops": forward.dropped.packets,
                "delivered_packets": forward.delivered.packets,
            },
            "sender": self.sender,
        })
    }
}

/// Reads the copy once more, from disk: what the transfer computed on the way is not taken on trust here.
fn verify(copy: &Path, expected: &[u8; 32]) -> Result<String, Failure> {
    let failed = |e: std::io::Error| Failure::File(format!("{}: {e}", copy.display()));
    let file = std::fs::File::open(copy).map_err(failed)?;
    let (_, hasher) = crate::cp::hashing::hash_prefix(&file, u64::MAX, |_| true).map_err(failed)?;
    let hash = hasher.finalize();
    if hash.as_bytes() != expected {
        return Err(Failure::Mismatch("the copy is not what was sent".into()));
    }
    Ok(hash.to_hex().to_string())
}
